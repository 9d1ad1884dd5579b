"""The cells of one source again with other numbers of requests per window, each window calibrated anew.

The published study has 200 requests in every window and left other numbers open. The windows here start at the same
rows as the study's, so smaller ones are parts of them and longer ones need room. Every number has the same windows,
those with room for the largest: in the order of their rows, a window is taken if the trace holds that many rows from
its start and the last one taken has ended by then.

Load factors mean nothing across numbers of requests, so each window gets its own by the study's bisection. Its
threshold of 0.005 is the first late request of 200, and also of 100 and 50, where no smaller rate exists; of 400 it
would be the second. So that the knee means the same at every number, it is the first late request everywhere: 1/n.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from servestudy.calibration import calibrate
from servestudy.errors import UserError
from servestudy.progress import progress
from servestudy.published_model import PUBLISHED_MODEL, PublishedModel
from servestudy.simulation import CELL_SCHEMA, simulate_window
from servestudy.tables import read_table, write_table
from servestudy.windows.frozen import WINDOW_SCHEMA, FrozenWindow, read_windows
from servestudy.windows.sampling import WINDOW_REQUESTS


def start_rows(path: Path | str) -> dict[str, int]:
    """First row of each window of a window table, by window id."""
    table = read_table(path, WINDOW_SCHEMA)
    first = table.filter(pa.array(table["position"].to_numpy() == 0))
    return dict(zip(first["window_id"].to_pylist(), first["source_row"].to_pylist(), strict=True))


def with_room(windows: Sequence[FrozenWindow], starts: dict[str, int], size: int) -> list[FrozenWindow]:
    """The windows that hold `size` requests without overlap, in the order given."""
    taken: set[str] = set()
    free_from = 0
    for window in sorted(windows, key=lambda window: starts[window.window_id]):
        start = starts[window.window_id]
        if start >= free_from and len(window.time_s) >= size:
            taken.add(window.window_id)
            free_from = start + size
    return [window for window in windows if window.window_id in taken]


def first_requests(window: FrozenWindow, size: int) -> FrozenWindow:
    """The window's first `size` requests, in file order."""
    return replace(
        window,
        time_s=window.time_s[:size],
        prompt_tokens=window.prompt_tokens[:size],
        output_tokens=window.output_tokens[:size],
    )


def simulate_sizes(
    longer_windows: Path | str,
    schedulers: Sequence[str],
    regions: Sequence[str],
    out: dict[int, Path],
    model: PublishedModel = PUBLISHED_MODEL,
) -> None:
    """Simulate a source with each number of requests of `out` and write the cells (CELL_SCHEMA) to its path.

    `longer_windows` is the table of windows with the requests that follow. Raises UserError if no window has room, or a
    scheduler raises.
    """
    largest = max(*out, WINDOW_REQUESTS)
    windows = with_room(read_windows(longer_windows), start_rows(longer_windows), largest)
    if not windows:
        raise UserError(
            f"{longer_windows}: no window has {largest} requests; use a smaller number (sensitivity.window_requests) "
            "or a longer trace"
        )
    tables = {}
    for size in out:
        rows = []
        for whole in progress(windows, len(windows), f"windows of {size} requests"):
            window = first_requests(whole, size)
            lambda_ref = calibrate(model.workload(window), 1 / size, model).lambda_ref
            for name in schedulers:
                rows += simulate_window(window, lambda_ref, name, partial(model.scheduler, name), 1, model, regions)
        tables[size] = pa.Table.from_pylist(rows, CELL_SCHEMA)
    for size, path in out.items():
        write_table(tables[size], CELL_SCHEMA, path)

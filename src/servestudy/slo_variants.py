"""The cells of one source again under other SLOs: deadlines a multiple of the study's 20 service times.

Source: the published study's extension. The slack before each deadline is multiplied; load factors keep the
calibration at 20, and the region LOW is left out. A scheduler that decides without the deadline needs one run for all
multipliers, and which ones do is not taken from their descriptions but tried in each cell: the first run hands
out deadlines that cannot be read. Only if the scheduler reads one does each multiplier get a run of its own.

The study's own multiplier is always among them: its cells must be the run's own, bit for bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from servestudy.engine.fixed_step_records import Outcome
from servestudy.errors import UserError
from servestudy.metrics import METRICS
from servestudy.progress import progress
from servestudy.published_model import PUBLISHED_MODEL, PublishedModel
from servestudy.schedulers.protocol import Request, Scheduler
from servestudy.simulation import (
    CELL_SCHEMA,
    cell_name,
    cell_row,
    failures_named,
    measure,
    require_calibration,
)
from servestudy.tables import read_table, write_table
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import REGIONS, SLACK_MULTIPLIER, Workload

REGIONS_USED = tuple(region for region in REGIONS if region != "LOW")
COMPARED = [metric.name for metric in METRICS] + ["load_factor", "outcome_sha256"]


class DeadlineReadError(Exception):
    """A scheduler looked at an unreadable deadline."""


class UnreadableDeadline:
    """Stands for one deadline and objects to every use of it: comparing, calculating, converting, printing.

    Each request needs one of its own: Python takes an object in a tuple as equal to itself without asking it.
    """

    def _object(self, *_: object) -> None:
        raise DeadlineReadError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _object
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _object
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __divmod__ = __rdivmod__ = _object
    __neg__ = __pos__ = __abs__ = __bool__ = __int__ = __float__ = __index__ = __complex__ = _object
    __round__ = __trunc__ = __floor__ = __ceil__ = __repr__ = __str__ = __format__ = __getattr__ = _object


@dataclass(frozen=True)
class UnreadableDeadlines(Workload):
    """A workload whose requests have deadlines that cannot be read."""

    def requests(self) -> list[Request]:
        return [request._replace(deadline_s=UnreadableDeadline()) for request in super().requests()]


def outcomes(
    scaled: dict[int, Workload], make: Callable[[], Scheduler], name: str = "", model: PublishedModel = PUBLISHED_MODEL
) -> dict[int, Outcome]:
    """Outcome by multiplier of workloads that differ in their deadlines only."""
    first = next(iter(scaled.values()))
    try:
        return dict.fromkeys(scaled, model.run(UnreadableDeadlines(**vars(first)), make(), name))
    except DeadlineReadError:
        return {multiplier: model.run(workload, make(), name) for multiplier, workload in scaled.items()}


def variant_rows(
    window: FrozenWindow,
    lambda_ref: float,
    name: str,
    make: Callable[[], Scheduler],
    multipliers: Sequence[int],
    model: PublishedModel = PUBLISHED_MODEL,
) -> dict[int, list[dict]]:
    """Rows of CELL_SCHEMA by multiplier, for one window and scheduler: a row a region, one repetition.

    Raises UserError that names the cell if the scheduler raises.
    """
    workload = model.workload(window)
    rows: dict[int, list[dict]] = {multiplier: [] for multiplier in multipliers}
    for region in REGIONS_USED:
        load_factor = lambda_ref * REGIONS[region]
        scaled = {
            multiplier: model.scaled(workload, load_factor, multiplier / SLACK_MULTIPLIER) for multiplier in multipliers
        }
        with failures_named(cell_name(window, region, name), name):
            of_multiplier = outcomes(scaled, make, name, model)
        for multiplier, outcome in of_multiplier.items():
            measured = measure(outcome, scaled[multiplier], model)
            rows[multiplier].append(cell_row(window, region, name, 0, load_factor, measured, model))
    return rows


def simulate_variants(
    windows: list[FrozenWindow],
    lambda_ref: dict[str, float],
    cells: Sequence[Path | str],
    schedulers: Sequence[str],
    out: dict[int, Path],
    model: PublishedModel = PUBLISHED_MODEL,
) -> None:
    """Simulate a source under each multiplier of `out` and write the cells (CELL_SCHEMA) to its path.

    `lambda_ref` is by window id; `cells` are the run's own cells of the source. Raises UserError as `variant_rows`, if
    a window has no calibration, or if the cells at the study's multiplier are not the run's own.
    """
    require_calibration(windows, lambda_ref)
    rows: dict[int, list[dict]] = {multiplier: [] for multiplier in (SLACK_MULTIPLIER, *out)}
    for window in progress(windows, len(windows), "windows under other SLOs"):
        for name in schedulers:
            load, make = lambda_ref[window.window_id], partial(model.scheduler, name)
            for multiplier, of_window in variant_rows(window, load, name, make, [*rows], model).items():
                rows[multiplier] += of_window
    _require_equal(rows[SLACK_MULTIPLIER], cells)
    for multiplier, path in out.items():
        write_table(pa.Table.from_pylist(rows[multiplier], CELL_SCHEMA), CELL_SCHEMA, path)


def _require_equal(rows: list[dict], cells: Sequence[Path | str]) -> None:
    """Raise UserError for the first row that is not, to the last bit, among the stored cells."""
    stored = {_key(row): row for path in cells for row in read_table(path, CELL_SCHEMA).to_pylist()}
    for row in rows:
        own = stored.get(_key(row))
        differing = [name for name in COMPARED if own is None or repr(own[name]) != repr(row[name])]
        if differing:
            found = (
                f"its {differing[0]} is {own[differing[0]]}, simulated again {row[differing[0]]}" if own else "absent"
            )
            raise UserError(
                f"cell {' / '.join(_key(row))} of the run: {found}; its cells come from other windows, calibration or "
                "code than this step's: run `snakemake --forcerun simulate_cells`"
            )


def _key(row: dict) -> tuple[str, ...]:
    return row["source"], row["window_id"], row["region"], row["scheduler"]

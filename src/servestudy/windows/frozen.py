"""Frozen windows: the stored table, and the windows in it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from servestudy.tables import column, read_table

WINDOW_SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source in config/sources.tsv"),
        column("window_id", pa.string(), "id of the window"),
        column("window_number", pa.int32(), "number of the window within its source, from 0"),
        column("position", pa.int32(), "place of the request in the window, from 0, in file order"),
        column("source_row", pa.int64(), "place of the request among the source's valid rows, from 0"),
        column("time_s", pa.float64(), "time of arrival in the source's own time, s"),
        column("prompt_tokens", pa.int32(), "prompt tokens"),
        column("output_tokens", pa.int32(), "output tokens"),
    ]
)


@dataclass(frozen=True)
class FrozenWindow:
    """One window: arrays with one entry a request, in file order; times in seconds of the source's own clock."""

    source: str
    window_id: str
    number: int
    time_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray


def read_windows(path: Path | str) -> list[FrozenWindow]:
    """All windows of a window table, in the study's order: by number.

    Raises UserError as `read_table` does.
    """
    table = read_table(path, WINDOW_SCHEMA)
    number = table["window_number"].to_numpy()
    windows = []
    for this in np.unique(number):
        rows = table.filter(pa.array(number == this))
        windows.append(
            FrozenWindow(
                source=rows["source"][0].as_py(),
                window_id=rows["window_id"][0].as_py(),
                number=int(this),
                time_s=rows["time_s"].to_numpy(),
                prompt_tokens=rows["prompt_tokens"].to_numpy().astype(np.int64),
                output_tokens=rows["output_tokens"].to_numpy().astype(np.int64),
            )
        )
    return windows

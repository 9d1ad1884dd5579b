"""Ranking of the schedulers in each condition: source, region and metric.

Source: the published study's ranking rule. A scheduler's value is the mean over the windows in which the metric is
defined, in the order of the windows. No rank averaging, no normalisation, no tolerance for ties.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import METRICS
from servestudy.simulation import CELL_SCHEMA
from servestudy.tables import column, read_table, write_frame

RANKING_SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("metric", pa.string(), "name of the metric"),
        column("scheduler", pa.string(), "name of the scheduler"),
        column("mean", pa.float64(), "mean over the windows where the metric is defined; NaN if there is none"),
        column("windows_defined", pa.int32(), "windows where the metric is defined"),
        column("windows_undefined", pa.int32(), "windows of the condition where it is not: left out, never imputed"),
    ]
)
METRIC_NAMES = [metric.name for metric in METRICS]


def mean_of_defined(values: np.ndarray) -> float:
    """NumPy mean of the values that are not NaN, in their order; NaN if there is none."""
    defined = values[~np.isnan(values)]
    return float(np.mean(defined)) if len(defined) else np.nan


def rank(cells: pd.DataFrame) -> pd.DataFrame:
    """Rows of RANKING_SCHEMA from cells (columns of CELL_SCHEMA); repetitions of a window are averaged first."""
    cells = cells.sort_values(["source", "window_number", "repetition"], kind="stable")
    rows = []
    for (source, region, scheduler), group in cells.groupby(["source", "region", "scheduler"], sort=False):
        by_window = [window[METRIC_NAMES].to_numpy() for _, window in group.groupby("window_number")]
        for number, metric in enumerate(METRIC_NAMES):
            values = np.array([mean_of_defined(window[:, number]) for window in by_window])
            undefined = int(np.isnan(values).sum())
            mean = mean_of_defined(values)
            rows.append((source, region, metric, scheduler, mean, len(values) - undefined, undefined))
    return pd.DataFrame(rows, columns=RANKING_SCHEMA.names)


def rank_cells(cell_files: Iterable[Path | str], out: Path | str) -> None:
    """Read the cells of several shards and write the ranking table."""
    cells = pa.concat_tables([read_table(path, CELL_SCHEMA) for path in cell_files])
    ranking = rank(cells.to_pandas())
    write_frame(ranking, RANKING_SCHEMA, out)

"""The input of every analysis: one value a window, region, metric and scheduler.

It comes from the cells of a run, or from anyone's long table with the columns source, window_id, region, scheduler,
metric, value.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from servestudy.errors import UserError
from servestudy.metrics import METRICS
from servestudy.simulation import CELL_SCHEMA
from servestudy.workload import REGIONS

LONG_COLUMNS = ("source", "window_id", "region", "scheduler", "metric", "value")
METRIC_NAMES = tuple(metric.name for metric in METRICS)
HIGHER_IS_BETTER = {metric.name: metric.higher_is_better for metric in METRICS}


@dataclass(frozen=True)
class WindowValues:
    """`values[source]` is a float array [region, metric, scheduler, window]; NaN is undefined (or absent).

    `windows[source]` names the last axis, in the study's order: digit-exact results depend on it. A window's value is
    the mean of its repetitions.
    """

    sources: tuple[str, ...]
    regions: tuple[str, ...]
    metrics: tuple[str, ...]
    schedulers: tuple[str, ...]
    windows: dict[str, tuple[str, ...]]
    values: dict[str, np.ndarray]

    def of(self, source: str, region: str, metric: str) -> np.ndarray:
        """Array [scheduler, window] of one condition."""
        return self.values[source][self.regions.index(region), self.metrics.index(metric)]

    def only(self, schedulers: Iterable[str]) -> "WindowValues":
        """The same for these schedulers, in the order given; raises UserError for one that is not there."""
        schedulers = tuple(schedulers)
        missing = [name for name in schedulers if name not in self.schedulers]
        if missing:
            raise UserError(f"no values of scheduler {', '.join(missing)}; there are {', '.join(self.schedulers)}")
        places = [self.schedulers.index(name) for name in schedulers]
        values = {source: array[:, :, places] for source, array in self.values.items()}
        return WindowValues(self.sources, self.regions, self.metrics, schedulers, self.windows, values)


def mean_of_defined(values: np.ndarray) -> float:
    """NumPy mean of the values that are not NaN, in their order; NaN if there is none."""
    defined = values[~np.isnan(values)]
    return float(np.mean(defined)) if len(defined) else np.nan


def load_values(
    paths: Sequence[Path | str], schedulers: Iterable[str] | None = None, window_order: Path | str | None = None
) -> WindowValues:
    """Read cells (shards of a run) or long tables (CSV or Parquet), and keep `schedulers` if given.

    Windows are ordered by number in cells, by first appearance in long tables, or as `window_order`, a text file with
    one window id a line, says. Raises UserError that names file, column or row for anything else.
    """
    long = pd.concat([_read_long(Path(path)) for path in paths], ignore_index=True)
    order = _read_order(Path(window_order)) if window_order else None
    values = _arrange(long, order, str(window_order))
    return values.only(schedulers) if schedulers is not None else values


def _read_long(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise UserError(f"{path}: not found; give cells of a run or a table with the columns {', '.join(LONG_COLUMNS)}")
    if path.suffix == ".parquet":
        names = pq.read_schema(path).names
        if names == CELL_SCHEMA.names:
            return _melt_cells(pq.read_table(path).to_pandas())
        table = pq.read_table(path).to_pandas()
    else:
        table = pd.read_csv(path, dtype={name: str for name in LONG_COLUMNS})
    missing = [name for name in LONG_COLUMNS if name not in table.columns]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}; it must have {', '.join(LONG_COLUMNS)}")
    if table.empty:
        raise UserError(f"{path}: the table has no row")
    table = table[list(LONG_COLUMNS)]
    undefined = table["value"].isna()
    value = pd.to_numeric(table["value"], errors="coerce")
    bad = (value.isna() & ~undefined) | np.isinf(value)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(f"{path}: row {row + 1}: value is {table['value'].iat[row]}, must be a number or nan")
    for name in LONG_COLUMNS[:-1]:
        if table[name].isna().any():
            row = int(np.flatnonzero(table[name].isna())[0])
            raise UserError(f"{path}: row {row + 1}: {name} is empty")
    return table.assign(value=value.astype(float))


def _melt_cells(cells: pd.DataFrame) -> pd.DataFrame:
    cells = cells.sort_values(["window_number", "repetition"], kind="stable")
    keys = ["source", "window_id", "region", "scheduler"]
    return cells.melt(keys, list(METRIC_NAMES), "metric", "value")[list(LONG_COLUMNS)]


def _read_order(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"{path}: not found; give a text file with one window id a line")
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _arrange(long: pd.DataFrame, order: list[str] | None, order_name: str) -> WindowValues:
    sources = tuple(sorted(long["source"].unique()))
    regions = _known_first(long["region"].unique(), REGIONS)
    unknown = sorted(set(long["metric"]).difference(METRIC_NAMES))
    if unknown:
        raise UserError(
            f"metric {unknown[0]!r} is unknown, so which values are better is too; known are {', '.join(METRIC_NAMES)}"
        )
    metrics = _known_first(long["metric"].unique(), METRIC_NAMES)
    schedulers = tuple(dict.fromkeys(long["scheduler"]))
    windows, values = {}, {}
    for source in sources:
        rows = long[long["source"] == source]
        windows[source] = tuple(dict.fromkeys(rows["window_id"]))
        if order is not None:
            missing = [window for window in windows[source] if window not in order]
            if missing:
                raise UserError(f"{order_name}: window {missing[0]} of {source} is not listed")
            windows[source] = tuple(sorted(windows[source], key=order.index))
        shape = (len(regions), len(metrics), len(schedulers), len(windows[source]))
        places = [
            pd.Categorical(rows[column], categories=names).codes
            for column, names in (
                ("region", regions),
                ("metric", metrics),
                ("scheduler", schedulers),
                ("window_id", windows[source]),
            )
        ]
        values[source] = _mean_of_repetitions(np.ravel_multi_index(places, shape), rows["value"].to_numpy(), shape)
    return WindowValues(sources, regions, metrics, schedulers, windows, values)


def _mean_of_repetitions(places: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Mean of the defined values at each place; NaN where there is none."""
    defined = ~np.isnan(values)
    size = int(np.prod(shape))
    count = np.bincount(places[defined], minlength=size)
    total = np.bincount(places[defined], weights=values[defined], minlength=size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape)


def _known_first(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Known names in their order, then the others by name."""
    found = set(names)
    ordered = [name for name in known if name in found]
    return tuple(ordered + sorted(found.difference(ordered)))

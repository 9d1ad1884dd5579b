"""The input of every analysis: one value a window, region, metric and scheduler.

It comes from the cells of a run, or from anyone's long table with the columns source, window_id, region, scheduler,
metric, value.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from servestudy.errors import UserError
from servestudy.metrics import METRICS
from servestudy.simulation import CELL_SCHEMA
from servestudy.workload import REGIONS

VALUE_COLUMNS = ("source", "window_id", "region", "scheduler", "metric", "value")
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
    one window id a line, says. Raises UserError that names file, column or row for anything else, also for a value that
    is given twice (repetitions in cells are not) and for cells of two engine models.
    """
    tables = [Path(path) for path in paths]
    cells = [path for path in tables if _is_cells(path)]
    records = [_read_cells(cells)] if cells else []
    records += [_read_long(path) for path in tables if path not in cells]
    order = _read_order(Path(window_order)) if window_order else None
    values = _arrange(records, order, str(window_order))
    return values.only(schedulers) if schedulers is not None else values


@dataclass(frozen=True)
class _Records:
    """`keys` has the columns source, window_id, region, scheduler; `values` an array [row, metric] beside it.

    `metric` None: each row is of the metric that the column `metric` of `keys` names, and `values` has one column.
    """

    keys: pd.DataFrame
    metrics: tuple[str, ...] | None
    values: np.ndarray


def _is_cells(path: Path) -> bool:
    if not path.is_file():
        raise UserError(
            f"{path}: not found; give cells of a run or a table with the columns {', '.join(VALUE_COLUMNS)}"
        )
    with _named_if_unreadable(path):
        return path.suffix == ".parquet" and pq.read_schema(path).names == CELL_SCHEMA.names


@contextmanager
def _named_if_unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{path}: not a readable table ({error})") from None


def _read_cells(paths: list[Path]) -> _Records:
    keys = ["source", "window_id", "region", "scheduler"]
    names = ["model", *keys, "window_number", "repetition", *METRIC_NAMES]
    tables = []
    for path in paths:
        with _named_if_unreadable(path):
            tables.append(pq.read_table(path, columns=names))
    cells = pa.concat_tables(tables).to_pandas()
    models = sorted(cells["model"].unique())
    if len(models) > 1:
        raise UserError(f"cells of the engine models {', '.join(models)} together; give those of one model")
    twice = cells.duplicated([*keys, "repetition"])
    if twice.any():
        raise UserError(f"cell {' / '.join(cells.loc[twice, keys].iloc[0])} is given twice; name each file once")
    cells = cells.sort_values(["window_number", "repetition"], kind="stable")
    return _Records(cells[keys], METRIC_NAMES, cells[list(METRIC_NAMES)].to_numpy())


def _read_long(path: Path) -> _Records:
    with _named_if_unreadable(path):
        if path.suffix == ".parquet":
            table = pq.read_table(path).to_pandas()
        else:
            table = pd.read_csv(path, dtype={name: str for name in VALUE_COLUMNS})
    missing = [name for name in VALUE_COLUMNS if name not in table.columns]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}; it must have {', '.join(VALUE_COLUMNS)}")
    if table.empty:
        raise UserError(f"{path}: the table has no row")
    value = pd.to_numeric(table["value"], errors="coerce").astype(float)
    bad = (value.isna() & ~table["value"].isna()) | np.isinf(value)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UserError(f"{path}: row {row + 1}: value is {table['value'].iat[row]}, must be a number or nan")
    for name in VALUE_COLUMNS[:-1]:
        if table[name].isna().any():
            row = int(np.flatnonzero(table[name].isna())[0])
            raise UserError(f"{path}: row {row + 1}: {name} is empty")
    keys = list(VALUE_COLUMNS[:-1])
    twice = table.duplicated(keys)
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        value_of = " / ".join(map(str, table[keys].iloc[row]))
        raise UserError(
            f"{path}: row {row + 1}: {value_of} has a value in an earlier row too; give one (of repetitions the mean)"
        )
    return _Records(table[keys], None, value.to_numpy()[:, np.newaxis])


def _read_order(path: Path) -> list[str]:
    if not path.is_file():
        raise UserError(f"{path}: not found; give a text file with one window id a line")
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _arrange(records: list[_Records], order: list[str] | None, order_name: str) -> WindowValues:
    keys = pd.concat([record.keys for record in records], ignore_index=True)
    of_cells = METRIC_NAMES if any(record.metrics for record in records) else ()
    named = set(of_cells).union(keys["metric"].dropna().unique() if "metric" in keys else ())
    unknown = sorted(named.difference(METRIC_NAMES))
    if unknown:
        raise UserError(
            f"metric {unknown[0]!r} is unknown, so which values are better is too; known are {', '.join(METRIC_NAMES)}"
        )
    sources = tuple(sorted(keys["source"].unique()))
    regions = _known_first(keys["region"].unique(), REGIONS)
    metrics = _known_first(named, METRIC_NAMES)
    schedulers = tuple(keys["scheduler"].unique())
    windows, values = {}, {}
    for source in sources:
        windows[source] = tuple(keys.loc[keys["source"] == source, "window_id"].unique())
        if order is not None:
            missing = [window for window in windows[source] if window not in order]
            if missing:
                raise UserError(f"{order_name}: window {missing[0]} of {source} is not listed")
            windows[source] = tuple(sorted(windows[source], key=order.index))
        shape = (len(regions), len(metrics), len(schedulers), len(windows[source]))
        axes = (regions, metrics, schedulers, windows[source])
        placed = [_places(record, source, axes, shape) for record in records]
        _refuse_overlap([np.unique(places) for places, _ in placed], source, axes, shape)
        places, defined_values = (np.concatenate(part) for part in zip(*placed, strict=True))
        values[source] = _mean_of_repetitions(places, defined_values, shape)
    return WindowValues(sources, regions, metrics, schedulers, windows, values)


def _places(record: _Records, source: str, axes: tuple, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Flat places in the array of a source, and the values that belong there."""
    of_source = (record.keys["source"] == source).to_numpy()
    rows = record.keys[of_source]
    regions, metrics, schedulers, windows = axes
    region, scheduler, window = (
        pd.Categorical(rows[column], categories=names).codes[:, np.newaxis].astype(np.int64)
        for column, names in (("region", regions), ("scheduler", schedulers), ("window_id", windows))
    )
    if record.metrics is None:
        metric = pd.Categorical(rows["metric"], categories=metrics).codes[:, np.newaxis].astype(np.int64)
    else:
        metric = np.array([[metrics.index(name) for name in record.metrics]])
    places = np.ravel_multi_index(np.broadcast_arrays(region, metric, scheduler, window), shape)
    return places.ravel(), record.values[of_source].ravel()


def _refuse_overlap(places: list[np.ndarray], source: str, axes: tuple, shape: tuple[int, ...]) -> None:
    """Raise UserError if two tables have a value for the same place."""
    found, count = np.unique(np.concatenate(places), return_counts=True)
    if (count > 1).any():
        indices = np.unravel_index(found[count > 1][0], shape)
        region, metric, scheduler, window = (names[i] for names, i in zip(axes, indices, strict=True))
        value_of = " / ".join([source, window, region, scheduler, metric])
        raise UserError(f"two of the tables have a value of {value_of}; give each value once")


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

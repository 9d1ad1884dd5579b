"""How often the schedulers differ at all: non-tied conditions, with Wilson intervals.

Source: the published study's pilot. A condition is one window at one region. It is non-tied if the largest and the
smallest value of any two schedulers differ by more than 1e-6. The study counts ANWG only; here each metric is counted,
with the tolerance in its unit.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import binomtest

from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

TOLERANCE = 1e-6
ALL = "all"

SCHEMA = pa.schema(
    [
        column("metric", pa.string(), "name of the metric"),
        column("source", pa.string(), f"id of the source, or {ALL}"),
        column("region", pa.string(), f"load region, or {ALL}"),
        column("counted", pa.string(), "condition: a window at a region; window: non-tied if so at some region"),
        column("n", pa.int32(), "conditions or windows with a value of two schedulers or more"),
        column("n_non_tied", pa.int32(), f"those whose values differ by more than {TOLERANCE}"),
        column("share", pa.float64(), "n_non_tied over n; NaN if n is 0"),
        column("low", pa.float64(), "lower end of the 95 % Wilson interval of the share"),
        column("high", pa.float64(), "upper end"),
        column("n_not_comparable", pa.int32(), "conditions or windows with a value of one scheduler or none, left out"),
        column("n_excluded", pa.int32(), "undefined (scheduler, window, region) values, left out"),
    ]
)


def ranges(condition: np.ndarray) -> np.ndarray:
    """Largest less smallest defined value of each window of [..., scheduler, window]; NaN with fewer than two."""
    smallest = np.where(np.isnan(condition), np.inf, condition).min(axis=-2)
    largest = np.where(np.isnan(condition), -np.inf, condition).max(axis=-2)
    comparable = (~np.isnan(condition)).sum(axis=-2) >= 2
    return np.subtract(largest, smallest, out=np.full(smallest.shape, np.nan), where=comparable)


def wilson_interval(count: int, n: int) -> tuple[float, float]:
    """95 % Wilson interval of a share; NaN if n is 0."""
    if not n:
        return np.nan, np.nan
    interval = binomtest(count, n).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def _row(of_conditions: np.ndarray) -> dict:
    """Counts of ranges, NaN where there is nothing to compare."""
    n, n_non_tied = int((~np.isnan(of_conditions)).sum()), int((of_conditions > TOLERANCE).sum())
    low, high = wilson_interval(n_non_tied, n)
    return {
        "n": n,
        "n_non_tied": n_non_tied,
        "share": n_non_tied / n if n else np.nan,
        "low": low,
        "high": high,
        "n_not_comparable": of_conditions.size - n,
    }


def _rows(values: WindowValues, metric: str) -> Iterator[dict]:
    arrays = {source: values.values[source][:, values.metrics.index(metric)] for source in values.sources}
    of_sources = {source: ranges(array) for source, array in arrays.items()}  # [region, window]
    n_undefined = {source: np.isnan(array).sum(axis=(1, 2)) for source, array in arrays.items()}  # [region]
    groups = [(source, [source]) for source in values.sources] + [(ALL, list(values.sources))]
    for name, sources in groups:
        pooled = np.concatenate([of_sources[source] for source in sources], axis=1)
        excluded = sum(n_undefined[source] for source in sources)
        for place, region in enumerate(values.regions):
            key = {"source": name, "region": region, "counted": "condition", "n_excluded": int(excluded[place])}
            yield key | _row(pooled[place])
        key = {"source": name, "region": ALL, "n_excluded": int(excluded.sum())}
        yield key | {"counted": "condition"} | _row(pooled)
        yield key | {"counted": "window"} | _row(np.fmax.reduce(pooled, axis=0))


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: metrics in the study's order; sources by name, then all together; regions, then all together."""
    rows = [{"metric": metric, **row} for metric in values.metrics for row in _rows(values, metric)]
    return pd.DataFrame(rows, columns=SCHEMA.names)

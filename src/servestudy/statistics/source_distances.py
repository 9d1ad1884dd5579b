"""How far apart are the workloads of two sources, and of two periods of one source (drift)?

Source: the published study, src/robustbench/characterization. Each comparison sets two groups of windows side by side,
in the 31 features z-scored over the rows compared (population sd; a constant feature is 0): the Euclidean distance of
the centroids, Mahalanobis' distance and the unbiased RBF MMD squared.

Where the study is silent: missing values become the median of the rows compared, and are counted. A distance that needs
a group's spread is NaN for a group of one window, and where no window differs from another of its group.

Mahalanobis' distance of groups of fewer windows than features (all strata here) rests on the ridge: their covariance is
singular, and a difference along a direction in which neither group varies counts some thirty-fold or more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.spatial.distance import cdist, pdist

from servestudy.statistics import workload_features
from servestudy.statistics.workload_features import FEATURES, STRATA
from servestudy.tables import column
from servestudy.windows.frozen import FrozenWindow

WHOLE = "all"
RIDGE = 0.001

COMPARISON_COLUMNS = [
    column("comparison", pa.string(), "sources: two sources; strata: two strata of one source (drift)"),
    column("source_x", pa.string(), "source of the first group"),
    column("stratum_x", pa.string(), "its stratum; all: every window of the source"),
    column("source_y", pa.string(), "source of the second group"),
    column("stratum_y", pa.string(), "its stratum, likewise"),
]
SCHEMA = pa.schema(
    [
        *COMPARISON_COLUMNS,
        column("windows_x", pa.int32(), "windows of the first group"),
        column("windows_y", pa.int32(), "windows of the second group"),
        column("values_missing", pa.int32(), "missing feature values in both groups, filled by medians"),
        column("euclid", pa.float64(), "distance of the centroids, in standard deviations"),
        column(
            "mahalanobis",
            pa.float64(),
            "by the mean covariance + 0.001 trace/31; NaN below 2 windows or without spread",
        ),
        column("mmd2", pa.float64(), "unbiased RBF MMD squared (median heuristic), below 0 where alike; NaN likewise"),
        column("largest_abs_d", pa.float64(), "largest |Cohen's d| of a feature; NaN if none has one"),
        column("largest_abs_d_feature", pa.string(), "that feature; empty if there is none"),
    ]
)


@dataclass(frozen=True)
class Comparison:
    """Two groups of windows: `keys` as in COMPARISON_COLUMNS, `x` and `y` arrays [window, feature]."""

    keys: dict[str, str]
    x: np.ndarray
    y: np.ndarray


def comparisons(features: pd.DataFrame) -> Iterator[Comparison]:
    """Each pair of sources by name, then each pair of the strata that a source has windows in."""
    names = sorted(features["source"].unique())
    groups = {(name, WHOLE): features[features["source"] == name] for name in names}
    for name in names:
        strata = {stratum: rows for stratum, rows in groups[name, WHOLE].groupby("stratum")}
        groups |= {(name, stratum): strata[stratum] for stratum in STRATA if stratum in strata}
    for (source_x, stratum_x), (source_y, stratum_y) in combinations(groups, 2):
        whole = (stratum_x == WHOLE, stratum_y == WHOLE)
        if all(whole) or (source_x == source_y and not any(whole)):
            keys = ("sources" if all(whole) else "strata", source_x, stratum_x, source_y, stratum_y)
            yield Comparison(
                dict(zip((field.name for field in COMPARISON_COLUMNS), keys, strict=True)),
                groups[source_x, stratum_x][list(FEATURES)].to_numpy(),
                groups[source_y, stratum_y][list(FEATURES)].to_numpy(),
            )


def standardised(values: np.ndarray) -> np.ndarray:
    """z-scores of each column over all rows; the median where missing, 0 where the column is constant or absent."""
    absent = np.all(np.isnan(values), axis=0)
    filled = np.where(absent, 0.0, values)
    filled = np.where(np.isnan(filled), np.nanmedian(filled, axis=0), filled)
    constant = np.ptp(filled, axis=0) == 0
    return np.where(constant, 0.0, (filled - filled.mean(axis=0)) / np.where(constant, 1.0, filled.std(axis=0)))


def cohen_d(x: np.ndarray, y: np.ndarray) -> float:
    """(mean x - mean y) / pooled sd (ddof 1) of defined values; NaN below 2 on a side or without spread."""
    if len(x) < 2 or len(y) < 2 or np.ptp(x) == np.ptp(y) == 0:
        return np.nan
    squares = (len(x) - 1) * np.var(x, ddof=1) + (len(y) - 1) * np.var(y, ddof=1)
    return float((np.mean(x) - np.mean(y)) / np.sqrt(squares / (len(x) + len(y) - 2)))


def mahalanobis(x: np.ndarray, y: np.ndarray) -> float:
    """Distance of the centroids by the mean of both covariances with a ridge; NaN below 2 rows or without spread."""
    if len(x) < 2 or len(y) < 2:
        return np.nan
    covariance = (np.cov(x, rowvar=False) + np.cov(y, rowvar=False)) / 2
    if not np.any(covariance):
        return np.nan
    ridge = RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    difference = x.mean(axis=0) - y.mean(axis=0)
    return float(np.sqrt(difference @ np.linalg.pinv(covariance + ridge) @ difference))


def mmd2(x: np.ndarray, y: np.ndarray) -> float:
    """Unbiased squared MMD, kernel exp(-gamma d^2), gamma = 1 / (2 median d^2 of all pairs of rows).

    NaN below 2 rows on a side or where that median is 0.
    """
    if len(x) < 2 or len(y) < 2:
        return np.nan
    median = np.median(pdist(np.concatenate([x, y]), "sqeuclidean"))
    if median == 0:
        return np.nan
    # Each unordered pair stands for two, and a row's distance to itself does not count: the mean is the unbiased one.
    within = [np.mean(np.exp(-pdist(side, "sqeuclidean") / (2 * median))) for side in (x, y)]
    return float(sum(within) - 2 * np.mean(np.exp(-cdist(x, y, "sqeuclidean") / (2 * median))))


def analyse(windows: Sequence[FrozenWindow], strata: dict[tuple[str, str], str]) -> pd.DataFrame:
    """Rows of SCHEMA; raises UserError as `workload_features.analyse` does."""
    return distances(workload_features.analyse(windows, strata))


def distances(features: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA, from rows of `workload_features.SCHEMA`."""
    rows = []
    for pair in comparisons(features):
        both = np.concatenate([pair.x, pair.y])
        z = standardised(both)
        x, y = z[: len(pair.x)], z[len(pair.x) :]
        effects = [abs(cohen_d(_defined(a), _defined(b))) for a, b in zip(pair.x.T, pair.y.T, strict=True)]
        largest = int(np.nanargmax(effects)) if not np.all(np.isnan(effects)) else None
        rows.append(
            {
                **pair.keys,
                "windows_x": len(x),
                "windows_y": len(y),
                "values_missing": int(np.isnan(both).sum()),
                "euclid": float(np.linalg.norm(x.mean(axis=0) - y.mean(axis=0))),
                "mahalanobis": mahalanobis(x, y),
                "mmd2": mmd2(x, y),
                "largest_abs_d": np.nan if largest is None else effects[largest],
                "largest_abs_d_feature": "" if largest is None else FEATURES[largest],
            }
        )
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _defined(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]

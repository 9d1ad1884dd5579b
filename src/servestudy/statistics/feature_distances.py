"""How much does each single feature differ between two sources, and between two periods of one source?

Source: the published study, src/robustbench/characterization: Cohen's d, the two-sample Kolmogorov-Smirnov test with
Benjamini-Hochberg over the pairs of one feature, Wasserstein's distance of the z-scores, and means with percentile
intervals of 2,000 resamples of the windows. Missing values are left out and counted.

Where the study is silent: each interval has a fresh generator of seed 0; the pairs of one feature that are corrected
together are those of all sources, and those of one source's strata.
"""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import false_discovery_control, ks_2samp, wasserstein_distance

from servestudy.statistics import workload_features
from servestudy.statistics.source_distances import COMPARISON_COLUMNS, cohen_d, comparisons
from servestudy.statistics.workload_features import FEATURES
from servestudy.tables import column
from servestudy.windows.frozen import FrozenWindow

RESAMPLES = 2000
SEED = 0

SCHEMA = pa.schema(
    [
        *COMPARISON_COLUMNS,
        column("feature", pa.string(), "name of the feature, as in workload_features"),
        *(
            column(f"{name}_{side}", dtype, meaning)
            for side in "xy"
            for name, dtype, meaning in (
                ("windows", pa.int32(), "windows of the group in which the feature is defined"),
                ("windows_undefined", pa.int32(), "windows in which it is not: left out, never imputed"),
                ("mean", pa.float64(), "mean over the windows, in the feature's unit; NaN if there is none"),
                ("mean_low", pa.float64(), "2.5th percentile of the resampled means"),
                ("mean_high", pa.float64(), "97.5th percentile of the resampled means"),
            )
        ),
        column("cohen_d", pa.float64(), "(mean x - mean y) / pooled sd; NaN below 2 windows or without spread"),
        column("ks", pa.float64(), "two-sample Kolmogorov-Smirnov statistic; NaN if a side has no window"),
        column("ks_p", pa.float64(), "its two-sided p-value, exact where SciPy can tell it"),
        column("ks_p_adjusted", pa.float64(), "the same after Benjamini-Hochberg over the pairs of this feature"),
        column("wasserstein_z", pa.float64(), "Wasserstein's distance in sds of the windows compared; 0 if constant"),
    ]
)


def mean_interval(values: np.ndarray) -> tuple[float, float]:
    """Percentile interval (95 %) of the mean over resampled windows; NaN without a value."""
    if not len(values):
        return np.nan, np.nan
    draws = np.random.default_rng(SEED).integers(0, len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def analyse(windows: Sequence[FrozenWindow], strata: dict[tuple[str, str], str]) -> pd.DataFrame:
    """Rows of SCHEMA; raises UserError as `workload_features.analyse` does."""
    return distances(workload_features.analyse(windows, strata))


def distances(features: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA, from rows of `workload_features.SCHEMA`."""
    rows = [
        {**pair.keys, "feature": name, **_compare(pair.x[:, place], pair.y[:, place])}
        for pair in comparisons(features)
        for place, name in enumerate(FEATURES)
    ]
    table = pd.DataFrame(rows, columns=[name for name in SCHEMA.names if name != "ks_p_adjusted"])
    within = table["source_x"].where(table["comparison"] == "strata", "")
    adjusted = table.groupby([table["feature"], within], sort=False)["ks_p"].transform(_adjust)
    return table.assign(ks_p_adjusted=adjusted.astype(float))[SCHEMA.names]


def _compare(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    found = {}
    for side, values in (("x", x), ("y", y)):
        defined = values[~np.isnan(values)]
        found[f"windows_{side}"] = len(defined)
        found[f"windows_undefined_{side}"] = len(values) - len(defined)
        found[f"mean_{side}"] = float(np.mean(defined)) if len(defined) else np.nan
        found[f"mean_low_{side}"], found[f"mean_high_{side}"] = mean_interval(defined)
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    found |= {"cohen_d": cohen_d(x, y), "ks": np.nan, "ks_p": np.nan, "wasserstein_z": np.nan}
    if len(x) and len(y):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful")  # then it is asymptotic
            test = ks_2samp(x, y)
        both = np.concatenate([x, y])
        sd = np.std(both) if np.ptp(both) else 1.0
        found |= {"ks": test.statistic, "ks_p": test.pvalue, "wasserstein_z": wasserstein_distance(x, y) / sd}
    return found


def _adjust(p: pd.Series) -> pd.Series:
    """Benjamini-Hochberg over the defined p-values; undefined ones take no place."""
    adjusted = p.copy()
    adjusted[p.notna()] = false_discovery_control(p[p.notna()]) if p.notna().any() else []
    return adjusted

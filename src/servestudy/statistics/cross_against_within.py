"""Are windows of different sources farther apart than windows of different periods of one source?

Source: the published study, src/robustbench/characterization: Euclidean distances of window pairs in the 31 features,
z-scored over all windows; cross = pairs of two sources, within = pairs of two strata of one source; two-sided
Mann-Whitney test. The study's effect is 1 - 2U/(n1 n2) with the U of the cross pairs: negative where cross pairs are
farther apart, although its documents say positive. Both signs are in the table, each named for what it does.

Pairs share windows, so they are not independent and the p-value is too small; the effect is a description.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.spatial.distance import pdist
from scipy.stats import mannwhitneyu

from servestudy.statistics import workload_features
from servestudy.statistics.source_distances import standardised
from servestudy.statistics.workload_features import FEATURES
from servestudy.tables import column
from servestudy.windows.frozen import FrozenWindow

SCHEMA = pa.schema(
    [
        column("sources", pa.int32(), "sources compared"),
        column("windows", pa.int32(), "windows of all of them"),
        column("values_missing", pa.int32(), "missing feature values, filled by medians over all windows"),
        column("cross_pairs", pa.int32(), "pairs of windows of two sources"),
        column("within_pairs", pa.int32(), "pairs of windows of two strata of one source"),
        column("cross_median", pa.float64(), "median distance of the cross pairs, in standard deviations"),
        column("within_median", pa.float64(), "median distance of the within pairs"),
        column(
            "mann_whitney_u", pa.float64(), "Mann-Whitney's U of the cross pairs; NaN if there is no pair of a kind"
        ),
        column("mann_whitney_p", pa.float64(), "its two-sided p-value, as if pairs were independent"),
        column("effect_published", pa.float64(), "1 - 2U/(n1 n2): negative where cross pairs are farther apart"),
        column("effect_cross_farther", pa.float64(), "2U/(n1 n2) - 1: positive where cross pairs are farther apart"),
    ]
)


def analyse(windows: Sequence[FrozenWindow], strata: dict[tuple[str, str], str]) -> pd.DataFrame:
    """One row of SCHEMA; raises UserError as `workload_features.analyse` does."""
    return compare(workload_features.analyse(windows, strata))


def compare(features: pd.DataFrame) -> pd.DataFrame:
    """One row of SCHEMA, from rows of `workload_features.SCHEMA`."""
    values = features[list(FEATURES)].to_numpy()
    first, second = np.triu_indices(len(values), k=1)  # the order of pdist
    apart = pdist(standardised(values)) if len(values) > 1 else np.array([])
    source, stratum = features["source"].to_numpy(object), features["stratum"].to_numpy(object)
    is_cross = source[first] != source[second]
    cross, within = apart[is_cross], apart[~is_cross & (stratum[first] != stratum[second])]
    u = p = effect = np.nan
    if len(cross) and len(within):
        u, p = mannwhitneyu(cross, within, alternative="two-sided")
        effect = 1 - 2 * u / (len(cross) * len(within))
    row = {
        "sources": len(np.unique(source)),
        "windows": len(values),
        "values_missing": int(np.isnan(values).sum()),
        "cross_pairs": len(cross),
        "within_pairs": len(within),
        "cross_median": float(np.median(cross)) if len(cross) else np.nan,
        "within_median": float(np.median(within)) if len(within) else np.nan,
        "mann_whitney_u": u,
        "mann_whitney_p": p,
        "effect_published": effect,
        "effect_cross_farther": -effect,
    }
    return pd.DataFrame([row], columns=SCHEMA.names)

"""Pairs of schedulers that two metrics order differently, in each source and region.

Source: the published study's extension: the five classes of its reversals, with two metrics in place of two sources.
Values are oriented, so the loser of a pair is the scheduler that does worse, and the margin is relative to it. Only a
pair whose order changes by more than the margin on both metrics is resampled: windows where both schedulers have a
value, one generator for each metric. Benjamini-Hochberg runs over the p-values of one source, region and metric pair.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.statistics.bootstrap import FALSE_DISCOVERY_RATE, adjusted_p
from servestudy.statistics.cross_metric import IDENTITIES, Condition, conditions
from servestudy.statistics.reversal_rules import PRACTICAL_MARGIN
from servestudy.statistics.reversals import side_test
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

UNDEFINED = "UNDEFINED"
SAME_ORDER = "SAME_ORDER"
MICROSCOPIC = "SIGN_CHANGE_MICROSCOPIC"
WIDE_CI = "UNSUPPORTED_SIGN_CHANGE_WIDE_CI"
SUPPORTED = "SUPPORTED_PRACTICAL_DISAGREEMENT"
CLASSES = (UNDEFINED, SAME_ORDER, MICROSCOPIC, WIDE_CI, SUPPORTED)

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("metric_a", pa.string(), "first metric of the pair, by name"),
        column("metric_b", pa.string(), "second metric"),
        column("identity", pa.bool_(), "the two metrics rank alike by definition if all weights are equal"),
        column("scheduler_x", pa.string(), "first scheduler of the pair, by name"),
        column("scheduler_y", pa.string(), "second scheduler"),
        column("n_excluded", pa.int32(), "undefined values of both schedulers, summed over windows and both metrics"),
        column("difference_a", pa.float64(), "mean of x less mean of y by metric_a; positive if x does better"),
        column("difference_b", pa.float64(), "the same by metric_b"),
        column("margin_a", pa.float64(), "|difference_a| over |the loser's mean|; NaN if that is 0, 0 for equals"),
        column("margin_b", pa.float64(), "the same by metric_b"),
        column("low_a", pa.float64(), "lower end of the 95 % interval of the paired difference; NaN if not resampled"),
        column("high_a", pa.float64(), "upper end"),
        column("low_b", pa.float64(), "the same by metric_b"),
        column("high_b", pa.float64(), "upper end"),
        column("p", pa.float64(), "larger of the two metrics' p-values of a difference; NaN if not resampled"),
        column("fdr_rejected", pa.bool_(), "p is rejected by Benjamini-Hochberg at 0.05, whatever the class"),
        column("disagreement", pa.string(), f"one of {', '.join(CLASSES)}"),
    ]
)


def margins(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """|difference| over |the smaller, the loser's|; 0 for equal values, NaN if the loser has 0 or one is NaN."""
    difference, loser = np.abs(first - second), np.abs(np.minimum(first, second))
    margin = np.divide(difference, loser, out=np.full(len(loser), np.nan), where=loser > 0)
    return np.where(difference == 0, 0.0, margin)


def _disagreements(condition: Condition, metric_a: str, metric_b: str) -> pd.DataFrame:
    """Rows of SCHEMA for one pair of metrics."""
    schedulers = np.array(condition.schedulers)
    x, y = np.triu_indices(len(schedulers), 1)
    table = {
        "source": condition.source,
        "region": condition.region,
        "metric_a": metric_a,
        "metric_b": metric_b,
        "identity": (metric_a, metric_b) in IDENTITIES,
        "scheduler_x": schedulers[x],
        "scheduler_y": schedulers[y],
        "n_excluded": 0,
    }
    for side, metric in (("a", metric_a), ("b", metric_b)):
        n_undefined = np.isnan(condition.values[metric]).sum(axis=1)
        means = condition.means[metric]
        table["n_excluded"] = table["n_excluded"] + n_undefined[x] + n_undefined[y]
        table[f"difference_{side}"] = means[x] - means[y]
        table[f"margin_{side}"] = margins(means[x], means[y])
    margin = np.minimum(table["margin_a"], table["margin_b"])
    opposite = np.sign(table["difference_a"]) * np.sign(table["difference_b"]) < 0
    classes = np.select(
        [np.isnan(margin), ~opposite, ~(margin > PRACTICAL_MARGIN)], [UNDEFINED, SAME_ORDER, MICROSCOPIC], WIDE_CI
    ).astype(object)
    resampled = np.full((2, 3, len(x)), np.nan)
    for pair in np.flatnonzero(classes == WIDE_CI):
        for side, metric in enumerate((metric_a, metric_b)):
            first, second = condition.values[metric][[x[pair], y[pair]]]
            differences = (first - second)[~np.isnan(first - second)]
            names = (metric_a, metric_b, schedulers[x[pair]], schedulers[y[pair]], "ab"[side])
            resampled[side, :, pair] = side_test(differences, condition.generator(*names))
    (low_a, high_a, p_a), (low_b, high_b, p_b) = resampled
    p = np.maximum(p_a, p_b)
    excludes_zero = ((low_a > 0) | (high_a < 0)) & ((low_b > 0) | (high_b < 0))
    classes[excludes_zero] = SUPPORTED
    table |= {"low_a": low_a, "high_a": high_a, "low_b": low_b, "high_b": high_b, "p": p, "disagreement": classes}
    table["fdr_rejected"] = adjusted_p(p) <= FALSE_DISCOVERY_RATE
    return pd.DataFrame(table, index=range(len(x)))


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: sources by name, regions in the study's order, metric pairs and scheduler pairs by name."""
    parts = [_disagreements(condition, *pair) for condition in conditions(values) for pair in condition.metric_pairs]
    return pd.concat(parts, ignore_index=True)[SCHEMA.names] if parts else pd.DataFrame(columns=SCHEMA.names)

"""Mean tau-b over conditions when something is left out or defined otherwise: the study's robustness families.

Source: the published study. Its family of metric definitions was planned and never run: undefined values left out
scheduler by scheduler (the study's rule), or with the whole window, or with the whole condition (source, region,
metric). It is computed here for every metric, the others for the primary metric. The number of windows is the subject
of the sample complexity, and SLO definitions need new simulations: neither is here.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.bootstrap import tau_b
from servestudy.statistics.robustness_variants import UNDEFINED_RULES, variants
from servestudy.statistics.temporal_splits import temporal_splits
from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("family", pa.string(), "robustness family of the study"),
        column(
            "variant", pa.string(), "what is left out or kept, or how windows are split or undefined values treated"
        ),
        column("metric", pa.string(), "name of the metric"),
        column("n_conditions", pa.int32(), "comparisons: region x source pair, or region x pair of groups of windows"),
        column("n_conditions_undefined", pa.int32(), "comparisons without a tau-b: not in the mean"),
        column(
            "n_conditions_below_two", pa.int32(), "of these, those with fewer than two schedulers defined on both sides"
        ),
        column(
            "n_excluded", pa.int32(), "values (scheduler, window) left out, undefined or with an undefined one, summed"
        ),
        column("mean_tau_b", pa.float64(), "mean of tau-b over the comparisons that have one; NaN if none has"),
        column("min_tau_b", pa.float64(), "smallest"),
        column("max_tau_b", pa.float64(), "largest"),
    ]
)


def analyse(values: WindowValues, window_index: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rows of SCHEMA. Without a window index only temporal splits by position are there.

    Raises UserError if the values lack the primary metric or the index lacks a window.
    """
    rows = []
    for variant in variants(values):
        kept = variant.values
        comparisons = [
            (kept.of(source_x, region, PRIMARY_METRIC), kept.of(source_y, region, PRIMARY_METRIC))
            for region, source_x, source_y in variant.conditions()
        ]
        rows.append(_row(variant.family, variant.variant, PRIMARY_METRIC, comparisons))
    for split in temporal_splits(values, window_index):
        comparisons = [
            tuple(values.of(split.source, region, PRIMARY_METRIC)[:, split.groups[group]] for group in pair)
            for region in values.regions
            for pair in split.pairs()
        ]
        rows.append(_row("TEMPORAL_SPLIT_SENSITIVITY", f"{split.source} {split.rule}", PRIMARY_METRIC, comparisons))
    for metric in values.metrics:
        comparisons = [
            tuple(values.of(source, region, metric) for source in pair)
            for region in values.regions
            for pair in combinations(values.sources, 2)
        ]
        for variant, keep in UNDEFINED_RULES.items():
            rows.append(_row("METRIC_DEFINITION_SENSITIVITY", variant, metric, comparisons, keep))
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _row(
    family: str,
    variant: str,
    metric: str,
    comparisons: list[tuple[np.ndarray, np.ndarray]],
    keep: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> dict:
    """Statistics of tau-b over pairs of conditions [scheduler, window]; `keep` drops windows of a condition."""
    kept = [[keep(side) for side in pair] for pair in comparisons]
    left_out = sum(
        side.size - int((~np.isnan(rest)).sum())
        for pair, rests in zip(comparisons, kept, strict=True)
        for side, rest in zip(pair, rests, strict=True)
    )
    means = [[[mean_of_defined(row) for row in side] for side in pair] for pair in kept]
    taus, below_two = np.array([]), 0
    if means:
        x, y = np.array(means).transpose(1, 2, 0)
        taus = tau_b(x, y)
        below_two = int(((~np.isnan(x) & ~np.isnan(y)).sum(axis=0) < 2).sum())
    defined = taus[~np.isnan(taus)]
    mean, low, high = (defined.mean(), defined.min(), defined.max()) if len(defined) else (np.nan,) * 3
    return {
        "family": family,
        "variant": variant,
        "metric": metric,
        "n_conditions": len(taus),
        "n_conditions_undefined": len(taus) - len(defined),
        "n_conditions_below_two": below_two,
        "n_excluded": left_out,
        "mean_tau_b": float(mean),
        "min_tau_b": float(low),
        "max_tau_b": float(high),
    }

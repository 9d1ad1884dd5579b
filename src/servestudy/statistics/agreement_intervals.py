"""Intervals of the agreement between sources, and Benjamini-Hochberg over the source pairs.

Source: the published study: windows of both sources are resampled independently; the family of p-values is the
source pairs of one metric and region.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.statistics.agreement import compare
from servestudy.statistics.bootstrap import FALSE_DISCOVERY_RATE, adjusted_p, agreement_intervals
from servestudy.statistics.published_order import comparisons, generator
from servestudy.statistics.window_values import HIGHER_IS_BETTER, WindowValues, mean_of_defined
from servestudy.tables import column

AGREEMENT_COLUMNS = [
    column("windows_x", pa.int32(), "windows of the first side with a value of any scheduler"),
    column("windows_y", pa.int32(), "windows of the second side"),
    column("n_schedulers", pa.int32(), "schedulers with a value on both sides"),
    column("n_excluded", pa.int32(), "undefined (scheduler, window) values, summed over both sides"),
    column("tau_b", pa.float64(), "Kendall's tau-b; NaN if a side is constant or has fewer than 2 schedulers"),
    column("tau_low", pa.float64(), "low end of its 95 % percentile interval; NaN if no resample has a tau"),
    column("tau_high", pa.float64(), "high end"),
    column("tau_p", pa.float64(), "two-sided p-value of tau-b (SciPy)"),
    column("rho", pa.float64(), "Spearman's rho; NaN likewise"),
    column("rho_low", pa.float64(), "low end of its 95 % percentile interval"),
    column("rho_high", pa.float64(), "high end"),
    column("rho_p", pa.float64(), "two-sided p-value of rho (SciPy)"),
    column("resamples_dropped", pa.int32(), "resamples without tau and rho (a side constant, or undefined): left out"),
    column("top1_overlap", pa.float64(), "share of the first scheduler in common, published rule"),
    column("top3_overlap", pa.float64(), "share of the first three in common, published rule"),
]
"""Columns of every comparison of two conditions with intervals."""

SCHEMA = pa.schema(
    [
        column("metric", pa.string(), "name of the metric"),
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        *AGREEMENT_COLUMNS,
        column("tau_p_adjusted", pa.float64(), "Benjamini-Hochberg over the source pairs of this metric and region"),
        column("tau_rejected", pa.bool_(), "independence is rejected at 0.05 after Benjamini-Hochberg"),
    ]
)


def compare_with_intervals(
    x: np.ndarray, y: np.ndarray, schedulers: tuple[str, ...], metric: str, rng: np.random.Generator
) -> dict[str, float]:
    """AGREEMENT_COLUMNS of two conditions [scheduler, window]; draws windows of x, then of y, from `rng`."""
    means = (pd.Series([mean_of_defined(row) for row in side], schedulers) for side in (x, y))
    point = compare(*means, HIGHER_IS_BETTER[metric])
    tau, rho = agreement_intervals(x, y, rng)
    return {
        **point,
        "windows_x": int((~np.isnan(x)).any(axis=0).sum()),
        "windows_y": int((~np.isnan(y)).any(axis=0).sum()),
        "n_excluded": int(np.isnan(x).sum() + np.isnan(y).sum()),
        "tau_low": tau.low,
        "tau_high": tau.high,
        "rho_low": rho.low,
        "rho_high": rho.high,
        "resamples_dropped": tau.dropped,
    }


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: metrics and regions in the study's order, source pairs by name."""
    rng = generator()
    rows = []
    for metric, region, source_x, source_y in comparisons(values, rng):
        x, y = (values.of(source, region, metric) for source in (source_x, source_y))
        agreement = compare_with_intervals(x, y, values.schedulers, metric, rng)
        rows.append({"metric": metric, "region": region, "source_x": source_x, "source_y": source_y, **agreement})
    if not rows:
        return SCHEMA.empty_table().to_pandas()
    table = pd.DataFrame(rows)
    families = table.groupby(["metric", "region"], sort=False)["tau_p"]
    table["tau_p_adjusted"] = families.transform(lambda p: adjusted_p(p.to_numpy()))
    table["tau_rejected"] = table["tau_p_adjusted"] <= FALSE_DISCOVERY_RATE
    return table[SCHEMA.names]

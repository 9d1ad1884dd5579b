"""Agreement of the rankings of each pair of sources, by region and metric.

Source: the published study. Kendall's tau-b and Spearman's rho (with average ranks) are SciPy's. The study's top-k
overlap takes the k largest values on every metric, also where smaller is better, and breaks ties by name; the overlap
oriented by the metric's direction stands beside it.
"""

import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import ConstantInputWarning, kendalltau, spearmanr

from servestudy.statistics import ranking
from servestudy.statistics.window_values import HIGHER_IS_BETTER, WindowValues
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("metric", pa.string(), "name of the metric"),
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        column("n_schedulers", pa.int32(), "schedulers with a value on both sides"),
        column("n_excluded", pa.int32(), "undefined (scheduler, window) values, summed over both sides"),
        column("tau_b", pa.float64(), "Kendall's tau-b; NaN if a side is constant or has fewer than 2 schedulers"),
        column("tau_p", pa.float64(), "its two-sided p-value"),
        column("rho", pa.float64(), "Spearman's rho; NaN likewise"),
        column("rho_p", pa.float64(), "its two-sided p-value"),
        column("top1_overlap", pa.float64(), "share of the first scheduler in common, published rule"),
        column("top3_overlap", pa.float64(), "share of the first three in common, published rule"),
        column("top1_overlap_oriented", pa.float64(), "the same with smaller values first where smaller is better"),
        column("top3_overlap_oriented", pa.float64(), "likewise"),
    ]
)


def top_overlap(x: pd.Series, y: pd.Series, k: int) -> float:
    """Share of the k largest values (ties by name) that two rankings have in common, of min(k, n); NaN below 2."""
    if len(x) < 2:
        return np.nan
    tops = [set(sorted(side.index, key=lambda name: (-side[name], name))[:k]) for side in (x, y)]
    return len(tops[0] & tops[1]) / min(k, len(x))


def compare(x: pd.Series, y: pd.Series, higher_is_better: bool) -> dict[str, float]:
    """Agreement of two rankings, given as values by scheduler name; only schedulers defined in both count."""
    names = sorted(set(x.dropna().index) & set(y.dropna().index))
    x, y = x[names], y[names]
    tau = rho = (np.nan, np.nan)
    if len(names) >= 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantInputWarning)  # a constant side is NaN, as declared
            tau, rho = kendalltau(x, y), spearmanr(x, y)
    sign = 1 if higher_is_better else -1
    return {
        "n_schedulers": len(names),
        "tau_b": tau[0],
        "tau_p": tau[1],
        "rho": rho[0],
        "rho_p": rho[1],
        "top1_overlap": top_overlap(x, y, 1),
        "top3_overlap": top_overlap(x, y, 3),
        "top1_overlap_oriented": top_overlap(sign * x, sign * y, 1),
        "top3_overlap_oriented": top_overlap(sign * x, sign * y, 3),
    }


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: metrics and regions in the study's order, source pairs by name."""
    conditions = {
        key: group.set_index("scheduler")
        for key, group in ranking.analyse(values).groupby(["source", "region", "metric"])
    }
    rows = []
    for metric in values.metrics:
        for region in values.regions:
            for source_x, source_y in combinations(values.sources, 2):
                x, y = (conditions[source, region, metric] for source in (source_x, source_y))
                rows.append(
                    {
                        "metric": metric,
                        "region": region,
                        "source_x": source_x,
                        "source_y": source_y,
                        "n_excluded": int(x["windows_undefined"].sum() + y["windows_undefined"].sum()),
                        **compare(x["mean"], y["mean"], HIGHER_IS_BETTER[metric]),
                    }
                )
    return pd.DataFrame(rows, columns=SCHEMA.names)

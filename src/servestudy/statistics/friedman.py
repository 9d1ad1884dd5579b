"""Friedman's test: do the schedulers differ at all, over the windows of all sources together?

Source: the published study, which ran the test and published no value. Blocks are the windows of all sources,
treatments the schedulers with a value in every window; Benjamini-Hochberg over the regions of a metric.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import friedmanchisquare

from servestudy.statistics.bootstrap import FALSE_DISCOVERY_RATE, adjusted_p
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("metric", pa.string(), "name of the metric"),
        column("region", pa.string(), "load region"),
        column("n_windows", pa.int32(), "blocks: windows of all sources in which any scheduler has a value"),
        column("n_schedulers", pa.int32(), "treatments: schedulers with a value in every one of them"),
        column("n_schedulers_excluded", pa.int32(), "schedulers left out because a value is undefined"),
        column("n_undefined", pa.int32(), "undefined (scheduler, window) values in these windows"),
        column("undefined_because", pa.string(), "why there is no statistic; empty where there is one"),
        column("chi_square", pa.float64(), "Friedman's statistic; NaN if undefined"),
        column("p", pa.float64(), "its p-value"),
        column("p_adjusted", pa.float64(), "Benjamini-Hochberg over the regions of this metric"),
        column("rejected", pa.bool_(), "equal schedulers are rejected at 0.05 after Benjamini-Hochberg"),
    ]
)


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: metrics and regions in the study's order."""
    rows = [_test(values, metric, region) for metric in values.metrics for region in values.regions]
    table = pd.DataFrame(rows)
    table["p_adjusted"] = table.groupby("metric", sort=False)["p"].transform(lambda p: adjusted_p(p.to_numpy()))
    table["rejected"] = table["p_adjusted"] <= FALSE_DISCOVERY_RATE
    return table[SCHEMA.names]


def _test(values: WindowValues, metric: str, region: str) -> dict:
    pooled = np.concatenate([values.of(source, region, metric) for source in values.sources], axis=1)
    undefined = np.isnan(pooled)
    blocks = ~undefined.all(axis=0)
    complete = ~undefined[:, blocks].any(axis=1)
    treatments = pooled[np.ix_(complete, blocks)]
    because = ""
    if blocks.sum() < 2:
        because = "fewer than 2 windows"
    elif complete.sum() < 3:
        because = "fewer than 3 schedulers defined in every window"
    elif (treatments == treatments[0]).all():
        because = "all schedulers tied in every window"
    chi_square, p = friedmanchisquare(*treatments) if not because else (np.nan, np.nan)
    return {
        "metric": metric,
        "region": region,
        "n_windows": int(blocks.sum()),
        "n_schedulers": int(complete.sum()) if blocks.any() else 0,
        "n_schedulers_excluded": int((~complete).sum()) if blocks.any() else len(pooled),
        "n_undefined": int(undefined[:, blocks].sum()),
        "undefined_because": because,
        "chi_square": float(chi_square),
        "p": float(p),
    }

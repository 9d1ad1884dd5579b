"""Speed-ups over seeds: the geometric mean of the ratios of paired runs and its interval.

Each seed is one draw of arrivals, lengths and tiers that both sides share, so the seeds are the independent units. The
interval is Student's for the mean of the logarithms, 95 %; with one seed there is none.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import stats

from servestudy.tables import column
from servestudy.tiers.metrics import KEYS
from servestudy.tiers.speedups import COMPARED

GROUP = [*(field.name for field in KEYS if field.name != "seed"), "reference"]
DIFFERENCE = "slo_attainment"
"""The one metric that is compared by difference, not by ratio."""
COVERAGE = 0.95
GAIN_SCHEMA = pa.schema(
    [
        *(field for field in KEYS if field.name != "seed"),
        column("reference", pa.string(), "what the system is compared with, see the table of speed-ups"),
        column("metric", pa.string(), f"what is compared; above 1 is better, of {DIFFERENCE} above 0"),
        column("seeds", pa.int32(), "paired runs with a value"),
        column("gain", pa.float64(), f"geometric mean of the speed-ups; of {DIFFERENCE}, the mean difference"),
        column("low", pa.float64(), "lower end of the 95 % interval; NaN of fewer than two seeds"),
        column("high", pa.float64(), "upper end"),
    ]
)


def gains(speedups: pd.DataFrame) -> pd.DataFrame:
    """Rows of GAIN_SCHEMA from rows of SPEEDUP_SCHEMA."""
    rows = []
    for key, group in speedups.groupby(GROUP, sort=True):
        named = {name: (np.log(group[f"{name}_speedup"].to_numpy()), np.exp) for name in COMPARED}
        named[DIFFERENCE] = (group["slo_gain"].to_numpy(), np.array)
        for metric, (values, back) in named.items():
            values = values[~np.isnan(values)]
            middle, low, high = _interval(values)
            ends = {"gain": float(back(middle)), "low": float(back(low)), "high": float(back(high))}
            rows.append({**dict(zip(GROUP, key, strict=True)), "metric": metric, "seeds": len(values), **ends})
    return pd.DataFrame(rows, columns=GAIN_SCHEMA.names)


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean and ends; values that are all the same have an interval without width."""
    if not len(values):
        return np.nan, np.nan, np.nan
    mean = values.mean()
    if len(values) < 2:
        return mean, np.nan, np.nan
    half = stats.t.ppf((1 + COVERAGE) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return mean, mean - half, mean + half

"""A budget of windows concentrated on one source against the same budget spread over all sources.

Source: the published study. The reference is the ranking by the means over all windows of all sources; 500 draws from
one `default_rng(999)` per metric, sources by name. Each draw picks a source uniformly and takes the budget from it,
then takes a share of the budget from every source. The statistic is the mean tau-b against the reference.

In the study the budget is 40 of a source's 40 windows, so the concentrated arm is the same ranking in every draw of a
source, and spreading uses 39 windows (rule "published"). The rule "equal_budgets" gives both arms as many windows and
also takes budgets below the whole, each from a fresh generator of the same seed.
"""

from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.statistics.bootstrap import resampled_means, tau_b
from servestudy.statistics.sample_complexity import N_DRAWS, means_of_defined, pooled_values
from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column

BUDGET = 40
SMALLER_BUDGETS = (10, 20, 30)
SEED = 999

SCHEMA = pa.schema(
    [
        column("metric", pa.string(), "name of the metric"),
        column("rule", pa.string(), "published: the whole of one source; equal_budgets: both arms cost the same"),
        column("n_concentrated", pa.int32(), "windows of one source in each draw, without replacement"),
        column("n_spread", pa.int32(), "windows of all sources together, as many of each"),
        column("n_windows_available", pa.int32(), "windows of all sources with a value; the reference is over these"),
        column("n_schedulers", pa.int32(), "schedulers with a value; tau needs 2"),
        column("n_excluded", pa.int32(), "undefined (scheduler, window) values, left out of the means"),
        column("n_draws", pa.int32(), "draws"),
        column("tau_concentrated", pa.float64(), "mean tau-b against the reference over the draws with a tau-b"),
        column("tau_spread", pa.float64(), "the same for the windows spread over the sources"),
        column("n_undefined_concentrated", pa.int32(), "draws without a tau-b (a constant side), left out of the mean"),
        column("n_undefined_spread", pa.int32(), "the same for the windows spread over the sources"),
    ]
)


@cache
def draw_budgets(n_windows: tuple[int, ...], n_concentrated: int, n_each: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws [draw, place] of the concentrated and of the spread windows, as places in all sources' windows in turn."""
    rng = np.random.default_rng(SEED)
    first = np.cumsum([0, *n_windows[:-1]])
    concentrated, spread = [], []
    for _ in range(N_DRAWS):
        source = rng.choice(len(n_windows))
        concentrated.append(first[source] + rng.choice(n_windows[source], size=n_concentrated, replace=False))
        shares = [rng.choice(n, size=n_each, replace=False) + start for n, start in zip(n_windows, first, strict=True)]
        spread.append(np.concatenate(shares))
    return np.array(concentrated, dtype=np.int64), np.array(spread, dtype=np.int64)


def budgets(n_windows: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """Rule, windows of one source, windows of each source; no more than the smallest source has."""
    n_sources, smallest = len(n_windows), min(n_windows)
    whole = min(BUDGET, smallest)
    plans = [("published", whole, whole // n_sources)]
    for budget in (*SMALLER_BUDGETS, BUDGET):
        n_each = budget // n_sources
        if 0 < n_each * n_sources <= smallest:
            plans.append(("equal_budgets", n_each * n_sources, n_each))
    return plans


def mean_tau(pooled: np.ndarray, draws: np.ndarray, reference: np.ndarray) -> tuple[float, int]:
    """Mean of the defined tau-b of the draws [draw, place] against the reference, and how many are undefined."""
    if not draws.size:
        return np.nan, len(draws)
    means = resampled_means(pooled, draws)
    taus = tau_b(means, np.broadcast_to(reference[:, None], means.shape))
    return mean_of_defined(taus), int(np.isnan(taus).sum())


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: metrics in the study's order, the published budget first."""
    rows = []
    for metric in values.metrics:
        of_sources = [pooled_values(values, source, metric) for source in values.sources]
        pooled = np.concatenate(of_sources, axis=1)
        reference = means_of_defined(pooled)
        n_windows = tuple(array.shape[1] for array in of_sources)
        for rule, n_concentrated, n_each in budgets(n_windows):
            concentrated, spread = (
                mean_tau(pooled, draws, reference) for draws in draw_budgets(n_windows, n_concentrated, n_each)
            )
            rows.append(
                {
                    "metric": metric,
                    "rule": rule,
                    "n_concentrated": n_concentrated,
                    "n_spread": n_each * len(n_windows),
                    "n_windows_available": pooled.shape[1],
                    "n_schedulers": int((~np.isnan(reference)).sum()),
                    "n_excluded": int(np.isnan(pooled).sum()),
                    "n_draws": N_DRAWS,
                    "tau_concentrated": concentrated[0],
                    "tau_spread": spread[0],
                    "n_undefined_concentrated": concentrated[1],
                    "n_undefined_spread": spread[1],
                }
            )
    return pd.DataFrame(rows, columns=SCHEMA.names)

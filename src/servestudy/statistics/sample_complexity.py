"""How many windows a stable ranking needs: how often a draw of windows recovers the ranking of all of them.

Source: the published study. Per source and metric, load regions pooled: a window's value is the NumPy mean of its rows
(six regions, two equal repetitions each, repetitions innermost). 500 draws without replacement for each number of
windows n, from a fresh `default_rng(12345 + n)`, so the draws are the same for every source and metric. Means run in
drawn order. A ranking is ordered by value, ties (equal floats) by name. The study takes larger values first on every
metric (rule "published"); the rule "oriented" takes smaller values first where smaller is better.
"""

from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.statistics.bootstrap import present, resampled_means
from servestudy.statistics.window_values import HIGHER_IS_BETTER, WindowValues, mean_of_defined
from servestudy.tables import column

N_WINDOWS = (5, 10, 20, 30, 40)
N_DRAWS = 500
SEED = 12345
THRESHOLD = 0.9
REPETITIONS = 2
CRITERIA = {"exact": None, "top1": 1, "top3": 3}

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("metric", pa.string(), "name of the metric"),
        column("rule", pa.string(), "published: larger values first on every metric; oriented: better values first"),
        column("criterion", pa.string(), "exact: the order is that of all windows; top1, top3: the first as a set"),
        column("n_windows", pa.int32(), "windows in each draw, without replacement"),
        column("n_windows_available", pa.int32(), "windows with a value of any scheduler; the reference is over these"),
        column("n_schedulers", pa.int32(), "schedulers with a value; below 2 there is nothing to recover"),
        column("n_excluded", pa.int32(), "undefined (scheduler, window) values, left out of the means"),
        column("n_draws", pa.int32(), "draws"),
        column("n_draws_incomplete", pa.int32(), "draws where a scheduler of the reference has no value"),
        column("probability", pa.float64(), "share of draws that meet the criterion; NaN below 2 schedulers"),
        column("is_first_n", pa.bool_(), f"the smallest n_windows whose probability is at least {THRESHOLD}"),
    ]
)


def means_of_defined(values: np.ndarray) -> np.ndarray:
    """`mean_of_defined` of each row of the last axis."""
    return np.apply_along_axis(mean_of_defined, -1, values)


def pooled_values(values: WindowValues, source: str, metric: str) -> np.ndarray:
    """Array [scheduler by name, window]: mean over the regions; windows without any value left out.

    Each region counts twice, as the study's two equal repetitions do: NumPy's mean of the twelve rows is not always
    the float that its mean of six is.
    """
    by_name = np.argsort(values.schedulers)
    regions = values.values[source][:, values.metrics.index(metric)][:, by_name]
    return present(means_of_defined(np.moveaxis(np.repeat(regions, REPETITIONS, axis=0), 0, -1)))


@cache
def draw_windows(n_available: int, n: int) -> np.ndarray:
    """Draws [draw, place] of n windows without replacement."""
    rng = np.random.default_rng(SEED + n)
    return np.array([rng.choice(n_available, size=n, replace=False) for _ in range(N_DRAWS)], dtype=np.int64)


def recovery(reference: np.ndarray, means: np.ndarray) -> dict[str, np.ndarray]:
    """Whether each draw meets each criterion. Reference [scheduler] and means [scheduler, draw], larger first.

    Schedulers are in the order of their names, which breaks ties. One without a value is not in the order.
    """
    everything = np.column_stack([reference, means])
    order = np.argsort(-everything, axis=0, kind="stable")  # NaN goes last
    place = np.argsort(order, axis=0)
    defined = ~np.isnan(everything)
    met = {}
    for criterion, k in CRITERIA.items():
        counted = defined if k is None else defined & (place < k)
        same = counted[:, 1:] == counted[:, :1]
        if k is None:
            same &= place[:, 1:] == place[:, :1]
        met[criterion] = same.all(axis=0)
    return met


def _curves(pooled: np.ndarray, higher_is_better: bool) -> list[dict]:
    """Rows of SCHEMA without source and metric."""
    n_available = pooled.shape[1]
    reference = means_of_defined(pooled)
    n_schedulers = int((~np.isnan(reference)).sum())
    drawn = {}
    for n in sorted({min(n, n_available) for n in N_WINDOWS}):
        draws = draw_windows(n_available, n)
        drawn[n] = resampled_means(pooled, draws) if n else np.full((len(pooled), N_DRAWS), np.nan)
    rows = []
    for rule, sign in (("published", 1), ("oriented", 1 if higher_is_better else -1)):
        met = {n: recovery(sign * reference, sign * means) for n, means in drawn.items()}
        for criterion in CRITERIA:
            share = {n: float(np.mean(met[n][criterion])) if n_schedulers >= 2 else np.nan for n in drawn}
            first = next((n for n in drawn if share[n] >= THRESHOLD), None)
            for n, means in drawn.items():
                incomplete = (np.isnan(means) & ~np.isnan(reference)[:, None]).any(axis=0)
                rows.append(
                    {
                        "rule": rule,
                        "criterion": criterion,
                        "n_windows": n,
                        "n_windows_available": n_available,
                        "n_schedulers": n_schedulers,
                        "n_excluded": int(np.isnan(pooled).sum()),
                        "n_draws": N_DRAWS,
                        "n_draws_incomplete": int(incomplete.sum()),
                        "probability": share[n],
                        "is_first_n": n == first,
                    }
                )
    return rows


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: sources by name, metrics in the study's order, rules, criteria, then n_windows.

    `n_windows` is capped at the windows there are; a condition without any value has one n_windows, 0.
    """
    rows = [
        {"source": source, "metric": metric, **row}
        for source in values.sources
        for metric in values.metrics
        for row in _curves(pooled_values(values, source, metric), HIGHER_IS_BETTER[metric])
    ]
    return pd.DataFrame(rows, columns=SCHEMA.names)

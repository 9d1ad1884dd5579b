"""Does the best number of tiers, or the best system, carry over from one workload and load to another?

The statistics of the other study on the cells of this one: tau-b of two rankings, pairs that change places, and how
many seeds it takes to find the best again. Rankings are by the mean over seeds; lower is better, of SLO attainment
higher.
"""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

METRICS = {"e2e_p99_s": 1, "ttft_mean_s": 1, "tbt_mean_s": 1, "slo_attainment": -1}
"""1: lower is better."""
CELL = ["preset", "load", "kv_blocks", "mix", "requests"]
COVERAGE = 0.95
MOST_DRAWS = 1000


def by_item(cells: pd.DataFrame, item: str, metric: str) -> dict[tuple, pd.DataFrame]:
    """For each cell a table with a row a seed and a column an item, lower better; seeds and items that are complete.

    Cells with fewer than two items are left out. `cells` has one row for each of CELL, item and seed.
    """
    found = {}
    for key, rows in cells.groupby(CELL, sort=True):
        table = METRICS[metric] * rows.pivot(index="seed", columns=item, values=metric).dropna()
        if table.shape[1] > 1 and len(table):
            found[key] = table
    return found


def compare(one: pd.DataFrame, two: pd.DataFrame) -> dict[str, float | int]:
    """Of two tables of `by_item`: tau-b over the items of both, and pairs of items whose order differs.

    A reversal is supported if in both cells the 95 % interval of the paired difference over seeds excludes 0.
    """
    items = [item for item in one if item in two]
    means = one[items].mean(), two[items].mean()
    signs = [_signs(table[items]) for table in (one, two)]
    pairs = list(combinations(range(len(items)), 2))
    orders = [[np.sign(mean.iloc[i] - mean.iloc[j]) for i, j in pairs] for mean in means]
    return {
        "ranked": len(items),
        "tau_b": float(stats.kendalltau(*means).statistic),
        "reversed_pairs": sum(x * y < 0 for x, y in zip(*orders, strict=True)),
        "supported_reversals": sum(x * y < 0 for x, y in zip(*signs, strict=True)),
    }


def _signs(table: pd.DataFrame) -> list[int]:
    """Of each pair of columns, the sign of its mean difference; 0 if the interval over rows includes 0."""
    signs = []
    for one, two in combinations(table.columns, 2):
        difference = (table[one] - table[two]).to_numpy()
        if len(difference) < 2:
            signs.append(0)
            continue
        half = stats.t.ppf((1 + COVERAGE) / 2, len(difference) - 1) * difference.std(ddof=1) / len(difference) ** 0.5
        mean = difference.mean()
        signs.append(int(np.sign(mean)) if abs(mean) > half else 0)
    return signs


def found_again(table: pd.DataFrame) -> list[tuple[int, float]]:
    """For each number of seeds: the share of its subsets whose best item is the best of all seeds.

    All subsets, or the first MOST_DRAWS of them in order; the best of equals is the first column.
    """
    best = table.mean().idxmin()
    shares = []
    for number in range(1, len(table) + 1):
        draws = [drawn for drawn, _ in zip(combinations(range(len(table)), number), range(MOST_DRAWS), strict=False)]
        hits = [table.iloc[list(drawn)].mean().idxmin() == best for drawn in draws]
        shares.append((number, float(np.mean(hits))))
    return shares

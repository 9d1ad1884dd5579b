"""Reversals of the order of two schedulers between two sources, in five classes, with intervals and p-values.

Source: the published study; the rules that need no resampling are in `reversal_rules`. The interval of a side is that
of the mean difference over windows where both schedulers are defined. It is paired: both schedulers are seen in the
windows drawn. Both rules share the intervals; pairs that only the oriented rule tests draw from a generator of
their own, so that the published draws are the study's.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.statistics.bootstrap import FALSE_DISCOVERY_RATE, adjusted_p, draw, percentile_interval
from servestudy.statistics.published_order import SEED, before_reversals
from servestudy.statistics.reversal_rules import (
    RULES,
    SUPPORTED,
    TESTED,
    WIDE,
    SourcePair,
    paired_differences,
    scheduler_pairs,
    source_pairs,
)
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("rule", pa.string(), "published, or oriented: the loser is the scheduler that does worse"),
        column("metric", pa.string(), "name of the metric"),
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        column("scheduler_a", pa.string(), "first scheduler of the pair, by name"),
        column("scheduler_b", pa.string(), "second scheduler"),
        column("reversal_class", pa.string(), "one of the study's five classes"),
        column(
            "supported_after_fdr", pa.bool_(), "a supported reversal that Benjamini-Hochberg at 0.05 leaves standing"
        ),
        *(
            column(f"mean_{scheduler}_{side}", pa.float64(), f"mean of scheduler {scheduler} in source {side}")
            for side in "xy"
            for scheduler in "ab"
        ),
        *(column(f"difference_{side}", pa.float64(), f"mean a less mean b in source {side}") for side in "xy"),
        *(
            column(
                f"margin_{side}",
                pa.float64(),
                f"|difference| over |mean of the loser| in source {side}; oriented: infinite if the loser is at 0",
            )
            for side in "xy"
        ),
        column("effect", pa.float64(), "the smaller of the two margins: the study's effect size"),
        column("smaller_difference", pa.float64(), "the smaller of the two |differences|, in the metric's unit"),
        *(
            column(f"windows_{side}", pa.int32(), f"windows of source {side} with both schedulers defined")
            for side in "xy"
        ),
        column("n_excluded", pa.int32(), "undefined values of the two schedulers, summed over both sources"),
        *(
            column(
                f"{end}_{side}", pa.float64(), f"{end} end of the 95 % interval of difference_{side}; NaN: not tested"
            )
            for side in "xy"
            for end in ("low", "high")
        ),
        *(
            column(
                f"p_{side}", pa.float64(), f"2 min(share of resampled differences <= 0, share >= 0) in source {side}"
            )
            for side in "xy"
        ),
        column("p", pa.float64(), "the larger of the two; NaN: not tested"),
        column("p_adjusted", pa.float64(), "Benjamini-Hochberg over all pairs tested at this rule, metric, region"),
    ]
)


def side_test(differences: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """Interval ends and p of the mean of differences by window; NaN without a window (then nothing is drawn)."""
    if not len(differences):
        return np.nan, np.nan, np.nan
    (places,) = draw(rng, len(differences))
    means = np.take(differences, places).mean(axis=1)
    low, high, _ = percentile_interval(means)
    p = min(1.0, 2 * min(float(np.mean(means <= 0)), float(np.mean(means >= 0))))
    return low, high, p


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: rule, then the study's order of metrics, regions, source pairs, scheduler pairs."""
    conditions = list(source_pairs(values))
    pairs = scheduler_pairs(values)
    published_rng, other_rng = before_reversals(values), np.random.default_rng(SEED + 1)
    tests = np.full((len(conditions), len(pairs), 2, 3), np.nan)  # low, high, p of each side
    done = np.zeros(tests.shape[:2], dtype=bool)
    frames = []
    for rule, rng in zip(RULES, (published_rng, other_rng), strict=True):
        for number, condition in enumerate(conditions):
            sides = [values.of(source, condition.region, condition.metric) for source in condition.sources]
            classes = condition.classes(rule)
            for place in np.flatnonzero((classes == TESTED) & ~done[number]):
                tests[number, place] = [side_test(paired_differences(side, pairs[place]), rng) for side in sides]
                done[number, place] = True
            frames.append(_frame(values, condition, rule, classes, tests[number], sides))
    if not frames or not pairs:
        return SCHEMA.empty_table().to_pandas()
    table = pd.concat(frames, ignore_index=True)
    families = table.groupby(["rule", "metric", "region"], sort=False)["p"]
    table["p_adjusted"] = families.transform(lambda p: adjusted_p(p.to_numpy()))
    rejected = table["p_adjusted"] <= FALSE_DISCOVERY_RATE
    table["supported_after_fdr"] = rejected & (table["reversal_class"] == SUPPORTED)
    return table[SCHEMA.names]


def _frame(
    values: WindowValues,
    condition: SourcePair,
    rule: str,
    classes: np.ndarray,
    tests: np.ndarray,
    sides: list[np.ndarray],
) -> pd.DataFrame:
    """Rows of one rule and condition. `tests` is [scheduler pair, side, (low, high, p)]."""
    first, second = np.array(scheduler_pairs(values), dtype=int).reshape(-1, 2).T
    names = np.array(values.schedulers, dtype=object)
    defined = [~np.isnan(side) for side in sides]
    margins = condition.margins(rule)
    low, high, p = np.where((classes == TESTED)[:, None, None], tests, np.nan).T
    excludes_zero = ((low > 0) | (high < 0)).all(axis=0)
    classes = np.where(classes != TESTED, classes, np.where(excludes_zero, SUPPORTED, WIDE))
    columns = {
        "rule": rule,
        "metric": condition.metric,
        "region": condition.region,
        "source_x": condition.sources[0],
        "source_y": condition.sources[1],
        "scheduler_a": names[first],
        "scheduler_b": names[second],
        "reversal_class": classes,
        "effect": margins.min(axis=0),
        "smaller_difference": np.abs(condition.differences).min(axis=0),
        "n_excluded": sum((~side[first]).sum(axis=1) + (~side[second]).sum(axis=1) for side in defined),
        "p": p.max(axis=0),
    }
    for place, side in enumerate("xy"):
        columns[f"mean_a_{side}"], columns[f"mean_b_{side}"] = condition.means[:, place]
        columns[f"difference_{side}"] = condition.differences[place]
        columns[f"margin_{side}"] = margins[place]
        columns[f"windows_{side}"] = (defined[place][first] & defined[place][second]).sum(axis=1)
        columns[f"low_{side}"], columns[f"high_{side}"], columns[f"p_{side}"] = low[place], high[place], p[place]
    return pd.DataFrame(columns)

"""Recovery curves and budgets of windows against slow loops, draw by draw."""

import itertools

import numpy as np
import pandas as pd
import pytest
from made_values import made_values, published_values
from scipy.stats import kendalltau

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import sample_complexity, window_budgets
from servestudy.statistics.window_values import HIGHER_IS_BETTER, VALUE_COLUMNS, load_values
from servestudy.tables import write_frame

METRICS = (PRIMARY_METRIC, "mean_latency")


def slow_pooled(values, source, metric):
    """{window: {scheduler: value}}, from twelve rows (or as many as defined): regions in order, two repetitions."""
    pooled = {}
    for w, window in enumerate(values.windows[source]):
        of_window = {}
        for s, scheduler in enumerate(values.schedulers):
            regions = [values.of(source, region, metric)[s, w] for region in values.regions]
            rows = [value for value in regions for _ in range(2) if not np.isnan(value)]
            if rows:
                of_window[scheduler] = float(np.mean(rows))
        if of_window:
            pooled[window] = of_window
    return pooled


def slow_means(pooled, windows):
    names = sorted({name for window in windows for name in pooled[window]})
    return {name: np.mean([pooled[w][name] for w in windows if name in pooled[w]]) for name in names}


def slow_order(means, sign):
    return sorted(means, key=lambda name: (-sign * means[name], name))


def slow_curves(values):
    """{(source, metric, rule, criterion, n): probability}"""
    result = {}
    for source, metric in itertools.product(values.sources, values.metrics):
        pooled = slow_pooled(values, source, metric)
        windows = list(pooled)
        for rule in ("published", "oriented"):
            sign = -1 if rule == "oriented" and not HIGHER_IS_BETTER[metric] else 1
            reference = slow_order(slow_means(pooled, windows), sign)
            for n in {min(n, len(windows)) for n in (5, 10, 20, 30, 40)}:
                rng = np.random.default_rng(12345 + n)
                met = {"exact": 0, "top1": 0, "top3": 0}
                for _ in range(500):
                    drawn = [windows[i] for i in rng.choice(len(windows), size=n, replace=False)]
                    order = slow_order(slow_means(pooled, drawn), sign)
                    met["exact"] += order == reference
                    met["top1"] += order[:1] == reference[:1]
                    met["top3"] += set(order[:3]) == set(reference[:3])
                for criterion, count in met.items():
                    result[source, metric, rule, criterion, n] = count / 500
    return result


@pytest.mark.parametrize("undefined", [0.0, 0.85])
def test_every_probability_equals_the_slow_one(undefined):
    values = made_values(1, (40, 12), METRICS, undefined=undefined)
    table = sample_complexity.analyse(values)
    assert list(table.columns) == sample_complexity.SCHEMA.names
    keys = ["source", "metric", "rule", "criterion", "n_windows"]
    assert table.set_index(keys)["probability"].to_dict() == slow_curves(values)
    assert (table["n_draws_incomplete"].max() > 0) == (undefined > 0)
    assert (table["n_excluded"].min() > 0) == (undefined > 0)


def test_the_two_rules_differ_only_where_smaller_is_better():
    table = sample_complexity.analyse(made_values(2, metrics=METRICS))
    by_rule = table.pivot(
        index=["source", "metric", "criterion", "n_windows"], columns="rule", values="probability"
    ).reset_index("metric")
    differs = by_rule["published"] != by_rule["oriented"]
    assert set(by_rule["metric"][differs]) == {"mean_latency"}


def test_the_first_n_is_the_smallest_that_reaches_the_threshold():
    table = sample_complexity.analyse(made_values(3, metrics=METRICS, levels=30))
    seen = set()
    for _, curve in table.groupby(["source", "metric", "rule", "criterion"]):
        reached = [n for n, p in zip(curve["n_windows"], curve["probability"], strict=True) if p >= 0.9]
        assert list(curve.loc[curve["is_first_n"], "n_windows"]) == reached[:1]
        seen.update(reached[:1])
    assert len(seen) > 1


def test_a_window_of_twelve_equal_cells_is_numpys_mean_of_twelve_rows_not_of_six(tmp_path):
    """As the study stores cells, of two equal repetitions; the mean of six regions has other last digits."""
    rng = np.random.default_rng(4)
    regions = ("LOW", "PRE_KNEE", "KNEE", "POST_KNEE", "OVERLOAD", "HIGH_PRESSURE")
    keys = itertools.product(["a"], [f"w{n}" for n in range(40)], regions, ["s", "t"], [PRIMARY_METRIC])
    once = pd.DataFrame([(*key, rng.integers(0, 201) / 200) for key in keys], columns=VALUE_COLUMNS)
    rows = once.loc[once.index.repeat(2)]
    once.to_parquet(tmp_path / "once.parquet")
    pooled = sample_complexity.pooled_values(load_values([tmp_path / "once.parquet"]), "a", PRIMARY_METRIC)
    for s, scheduler in enumerate(["s", "t"]):
        by_window = rows[rows["scheduler"] == scheduler].groupby("window_id", sort=False)["value"]
        assert pooled[s].tolist() == [np.mean(twelve.to_numpy()) for _, twelve in by_window]
        assert pooled[s].tolist() != [np.mean(twelve.to_numpy()[::2]) for _, twelve in by_window]


def test_one_window_constant_values_and_a_single_scheduler():
    table = sample_complexity.analyse(made_values(6, (1, 1), METRICS))
    assert set(table["n_windows"]) == {1}
    assert (table["probability"] == 1).all()
    tied = sample_complexity.analyse(made_values(7, (40,), METRICS, transform=np.zeros_like))
    assert (tied["probability"] == 1).all()
    assert set(tied.loc[tied["is_first_n"], "n_windows"]) == {5}
    alone = sample_complexity.analyse(made_values(8, (6,), METRICS, schedulers=("bare",)))
    assert alone["probability"].isna().all()
    assert not alone["is_first_n"].any()


def test_values_that_are_all_undefined_leave_one_row_without_windows(tmp_path):
    values = made_values(9, (4, 4), METRICS, transform=lambda array: np.full_like(array, np.nan))
    table = sample_complexity.analyse(values)
    assert len(table) == 2 * 2 * 2 * 3
    assert (table["n_windows"] == 0).all()
    assert table["probability"].isna().all()
    write_frame(table, sample_complexity.SCHEMA, tmp_path / "t.parquet")
    budgets = window_budgets.analyse(values)
    assert budgets[["tau_concentrated", "tau_spread"]].isna().all(axis=None)
    assert (budgets["n_undefined_spread"] == 500).all()
    write_frame(budgets, window_budgets.SCHEMA, tmp_path / "b.parquet")


def slow_budget(values, metric, n_concentrated, n_each):
    """Mean tau-b of both arms and the number of draws without one."""
    pooled = {(s, w): of_w for s in values.sources for w, of_w in slow_pooled(values, s, metric).items()}
    reference = slow_means(pooled, list(pooled))
    rng = np.random.default_rng(999)
    taus = {"concentrated": [], "spread": []}
    for _ in range(500):
        source = values.sources[rng.integers(len(values.sources))]
        own = [key for key in pooled if key[0] == source]
        drawn = {"concentrated": [own[i] for i in rng.choice(len(own), size=n_concentrated, replace=False)]}
        drawn["spread"] = []
        for source in values.sources:
            own = [key for key in pooled if key[0] == source]
            drawn["spread"] += [own[i] for i in rng.choice(len(own), size=n_each, replace=False)]
        for arm, windows in drawn.items():
            means = slow_means(pooled, windows)
            taus[arm].append(kendalltau([means[name] for name in means], [reference[name] for name in means])[0])
    return {
        arm: (np.mean([t for t in of_arm if not np.isnan(t)]), np.isnan(of_arm).sum()) for arm, of_arm in taus.items()
    }


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
@pytest.mark.parametrize(("undefined", "levels"), [(0.0, 20), (0.6, 20), (0.0, 2)])
def test_both_arms_of_a_budget_equal_the_slow_ones(undefined, levels):
    values = made_values(10, metrics=METRICS[1:], undefined=undefined, levels=levels)
    table = window_budgets.analyse(values)
    assert list(table.columns) == window_budgets.SCHEMA.names
    assert table[["rule", "n_concentrated", "n_spread"]].to_numpy().tolist() == [
        ["published", 40, 39],
        ["equal_budgets", 9, 9],
        ["equal_budgets", 18, 18],
        ["equal_budgets", 30, 30],
        ["equal_budgets", 39, 39],
    ]
    for row in table.iloc[:2].itertuples():
        slow = slow_budget(values, row.metric, row.n_concentrated, row.n_spread // 3)
        assert (row.tau_concentrated, row.n_undefined_concentrated) == slow["concentrated"]
        assert (row.tau_spread, row.n_undefined_spread) == slow["spread"]


def test_budgets_fit_the_smallest_source():
    table = window_budgets.analyse(made_values(11, (25, 40), METRICS[:1]))
    assert table[["n_concentrated", "n_spread"]].to_numpy().tolist() == [[25, 24], [10, 10], [20, 20]]


def test_published_windows(shared, tmp_path):
    values = published_values(shared, tmp_path)
    table = sample_complexity.analyse(values)
    assert table.set_index(["source", "metric", "rule", "criterion", "n_windows"])[
        "probability"
    ].to_dict() == slow_curves(values)
    assert set(table["n_windows"]) == {2}
    budgets = window_budgets.analyse(values)
    assert budgets[["rule", "n_concentrated", "n_spread"]].to_numpy().tolist() == [["published", 2, 0]]
    assert np.isnan(budgets["tau_spread"].iloc[0])

"""Reversals against a launcher that draws one resample at a time, to the last bit; every class, both rules."""

import math
from itertools import combinations

import numpy as np
import pytest
from slow_study import (
    RESAMPLES,
    condition,
    example_values,
    launched,
    margin,
    needs_test,
    ranking,
    reversal_class,
    test_side,
)
from statsmodels.stats.multitest import multipletests

from servestudy.statistics import bootstrap, reversals
from servestudy.statistics.reversal_rules import CLASSES
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import read_table, write_frame

KEYS = ["metric", "region", "source_x", "source_y", "scheduler_a", "scheduler_b"]


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


def one_condition(x, y, metric="arrival_normalized_weighted_goodput", region="LOW"):
    """Values of schedulers a and b in the windows of two sources."""
    arrays = {source: np.array(side, dtype=float)[None, None] for source, side in (("x", x), ("y", y))}
    windows = {source: tuple(map(str, range(array.shape[-1]))) for source, array in arrays.items()}
    return WindowValues(("x", "y"), (region,), (metric,), ("a", "b"), windows, arrays)


def rows(values):
    """The published and the oriented row of a single pair of schedulers."""
    table = reversals.analyse(values)
    assert list(table["rule"]) == ["published", "oriented"]
    return table.to_dict("records")


def equal(first, second):
    return first == second or (math.isnan(first) and math.isnan(second))


@pytest.mark.usefixtures("few_resamples")
def test_published_rule_equals_the_slow_launcher(tmp_path):
    table = reversals.analyse(example_values())
    published = table[table["rule"] == "published"]
    expected = launched()["reversals"]
    assert len(published) == len(expected) == 3 * 6 * 3 * 15
    for row, (key, (label, margins, tests)) in zip(published.to_dict("records"), expected.items(), strict=True):
        assert tuple(row[name] for name in KEYS) == key
        assert row["reversal_class"] == label, key
        for side, side_margin, (low, high, p) in zip("xy", margins, tests, strict=True):
            assert equal(row[f"margin_{side}"], side_margin)
            assert equal(row[f"low_{side}"], low)
            assert equal(row[f"high_{side}"], high)
            assert equal(row[f"p_{side}"], p)
    assert set(published["reversal_class"]) == set(CLASSES)
    write_frame(table, reversals.SCHEMA, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", reversals.SCHEMA).num_rows == len(table)


@pytest.mark.usefixtures("few_resamples")
def test_oriented_rule_equals_a_slow_one():
    """Pairs that both rules test share the interval, the others draw in order from a generator of their own."""
    values = example_values()
    table = reversals.analyse(values).set_index(["rule", *KEYS]).sort_index()
    rng = np.random.default_rng(1)
    only_oriented = 0
    for metric in values.metrics:
        for region in values.regions:
            for x, y in combinations(values.sources, 2):
                sides = [condition(values, source, region, metric) for source in (x, y)]
                for a, b in combinations(sorted(values.schedulers), 2):
                    row = table.loc[("oriented", metric, region, x, y, a, b)]
                    label, margins = needs_test(*sides, a, b, "oriented", metric)
                    if label is None:
                        published = launched()["reversals"][metric, region, x, y, a, b]
                        tests = published[2]
                        if math.isnan(tests[0][2]):
                            tests = [test_side(side, a, b, rng, RESAMPLES) for side in sides]
                            only_oriented += 1
                        label = reversal_class(tests)
                        assert (row["low_x"], row["high_x"], row["p_x"]) == tests[0]
                        assert (row["low_y"], row["high_y"], row["p_y"]) == tests[1]
                    assert row["reversal_class"] == label
                    assert all(map(equal, (row["margin_x"], row["margin_y"]), margins))
    assert only_oriented > 0


@pytest.mark.usefixtures("few_resamples")
def test_false_discovery_rate_is_over_all_source_pairs_of_a_metric_and_region():
    table = reversals.analyse(example_values())
    assert table["p"].equals(table[["p_x", "p_y"]].max(axis=1, skipna=False))
    sizes = []
    for _, family in table.groupby(["rule", "metric", "region"]):
        tested = family.dropna(subset="p")
        assert family["p_adjusted"].isna().sum() == len(family) - len(tested)
        if len(tested):
            rejected, adjusted, *_ = multipletests(tested["p"], alpha=0.05, method="fdr_bh")
            assert tested["p_adjusted"].to_numpy() == pytest.approx(adjusted, abs=1e-15)
            supported = tested["reversal_class"] == "SUPPORTED_PRACTICAL_REVERSAL"
            assert (tested["supported_after_fdr"] == (rejected & supported)).all()
            sizes.append(tested["source_x"].nunique())
        assert not family[family["p"].isna()]["supported_after_fdr"].any()
    assert max(sizes) > 1
    assert table["supported_after_fdr"].any()


def test_means_differences_and_counts_of_both_sides():
    values = example_values(undefined=0.3)
    for row in reversals.analyse(values).to_dict("records")[::37]:
        lost = 0
        for side in "xy":
            source = row[f"source_{side}"]
            means = ranking(condition(values, source, row["region"], row["metric"]))
            a, b = (means.get(row[f"scheduler_{name}"], math.nan) for name in "ab")
            assert equal(row[f"mean_a_{side}"], a)
            assert equal(row[f"mean_b_{side}"], b)
            assert equal(row[f"difference_{side}"], a - b)
            both = values.of(source, row["region"], row["metric"])[
                [values.schedulers.index(row[f"scheduler_{name}"]) for name in "ab"]
            ]
            assert row[f"windows_{side}"] == (~np.isnan(both).any(axis=0)).sum()
            lost += np.isnan(both).sum()
        assert row["n_excluded"] == lost
        assert equal(row["effect"], min(row["margin_x"], row["margin_y"]))
        assert equal(row["smaller_difference"], min(abs(row["difference_x"]), abs(row["difference_y"])))


def test_the_margin_must_be_exceeded_in_both_sources():
    published, _ = rows(one_condition([[1.1] * 3, [1.0] * 3], [[1.0] * 3, [2.0] * 3]))
    assert published["margin_x"] == margin(1.1, 1.0, "published", "any") > 0.1  # by the last bit of the float
    assert published["reversal_class"] == "SUPPORTED_PRACTICAL_REVERSAL"
    published, _ = rows(one_condition([[5.5] * 3, [5.0] * 3], [[1.0] * 3, [2.0] * 3]))
    assert published["margin_x"] == 0.1
    assert published["reversal_class"] == "MICROSCOPIC_SIGN_CHANGE"
    assert math.isnan(published["p"])


def test_a_tie_is_no_sign_change():
    published, oriented = rows(one_condition([[0.5, 0.5], [0.5, 0.5]], [[0.1, 0.1], [0.9, 0.9]]))
    assert published["reversal_class"] == oriented["reversal_class"] == "STABLE_NO_SIGN_CHANGE"
    assert published["margin_x"] == 0
    both_zero, _ = rows(one_condition([[0.0], [0.0]], [[0.1], [0.9]]))
    assert both_zero["margin_x"] == 0
    assert both_zero["reversal_class"] == "STABLE_NO_SIGN_CHANGE"


def test_a_loser_at_zero():
    """Unestimable by the published rule even without a sign change; looked at by sign first by the oriented one."""
    published, oriented = rows(one_condition([[0.0] * 4, [0.5] * 4], [[0.1] * 4, [0.9] * 4]))
    assert published["reversal_class"] == "UNDEFINED_UNESTIMABLE"
    assert oriented["reversal_class"] == "STABLE_NO_SIGN_CHANGE"
    published, oriented = rows(one_condition([[0.0] * 4, [0.5] * 4], [[0.9] * 4, [0.1] * 4]))
    assert published["reversal_class"] == "UNDEFINED_UNESTIMABLE"
    assert oriented["reversal_class"] == "SUPPORTED_PRACTICAL_REVERSAL"
    assert oriented["margin_x"] == math.inf
    assert oriented["smaller_difference"] == 0.5
    assert (oriented["low_x"], oriented["high_x"], oriented["p"]) == (-0.5, -0.5, 0)


def test_the_loser_of_a_latency_is_the_slower_one():
    published, oriented = rows(one_condition([[10.0] * 3, [10.9] * 3], [[3.0] * 3, [1.0] * 3], "mean_latency"))
    assert published["margin_x"] == oriented["margin_x"] * 1.09 == pytest.approx(0.09)
    assert (published["margin_y"], oriented["margin_y"]) == (2.0, 2 / 3)
    published, oriented = rows(one_condition([[10.0] * 3, [11.05] * 3], [[3.0] * 3, [1.0] * 3], "mean_latency"))
    assert published["reversal_class"] == "SUPPORTED_PRACTICAL_REVERSAL"
    assert oriented["reversal_class"] == "MICROSCOPIC_SIGN_CHANGE"
    violations = one_condition([[0.0] * 3, [0.5] * 3], [[0.4] * 3, [0.2] * 3], "slo_violation_rate")
    published, oriented = rows(violations)
    assert published["reversal_class"] == "UNDEFINED_UNESTIMABLE"  # the winner at 0 is taken for the loser
    assert oriented["margin_x"] == 1.0
    assert oriented["reversal_class"] == "SUPPORTED_PRACTICAL_REVERSAL"


def test_an_interval_that_touches_zero_does_not_support():
    x = [[1.0, 1.0, 2.0], [1.0, 1.0, 1.0]]  # differences 0, 0, 1
    published, _ = rows(one_condition(x, [[1.0] * 3, [2.0] * 3]))
    assert published["low_x"] == 0
    assert published["reversal_class"] == "UNSUPPORTED_SIGN_CHANGE_WIDE_CI"
    assert not published["supported_after_fdr"]


def test_undefined_sides_and_sides_without_a_common_window():
    nan = math.nan
    published, oriented = rows(one_condition([[nan, nan], [0.5, 0.5]], [[0.1, 0.1], [0.9, 0.9]]))
    assert published["reversal_class"] == oriented["reversal_class"] == "UNDEFINED_UNESTIMABLE"
    assert math.isnan(published["effect"])
    assert published["n_excluded"] == 2
    apart, _ = rows(one_condition([[0.9, nan], [nan, 0.1]], [[0.1, 0.1], [0.9, 0.9]]))
    assert apart["windows_x"] == 0
    assert apart["reversal_class"] == "UNSUPPORTED_SIGN_CHANGE_WIDE_CI"
    assert math.isnan(apart["p"])
    assert math.isnan(apart["p_adjusted"])


def test_one_scheduler_or_one_source_makes_no_row():
    for values in (example_values(schedulers=("fifo",)), example_values(sources=("a",), windows=(3,))):
        table = reversals.analyse(values)
        assert len(table) == 0
        assert list(table.columns) == reversals.SCHEMA.names

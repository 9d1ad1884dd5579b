"""Analyses by requests per window: shared windows, agreement and spread against plain loops, edge cases."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau
from slow_study import RESAMPLES, compare, condition, correlate, example_values, interval, ranking

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import bootstrap, window_size, window_size_spread
from servestudy.statistics.variants import on_shared_windows, primary_only
from servestudy.statistics.window_size_spread import ranges
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import write_frame


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


def example(seed=0, regions=("KNEE", "HIGH_PRESSURE"), undefined=0.1, windows=(6, 5, 7)):
    values = primary_only(example_values(seed, metrics=(PRIMARY_METRIC,), regions=regions, windows=windows))
    rng = np.random.default_rng(seed + 100)
    for array in values.values.values():
        array[rng.random(array.shape) < undefined] = np.nan
    return values


def without_window(values, source, place):
    kept = [number for number in range(len(values.windows[source])) if number != place]
    windows = values.windows | {source: tuple(values.windows[source][number] for number in kept)}
    return replace(values, windows=windows, values=values.values | {source: values.values[source][..., kept]})


def same(found, expected):
    return found == expected or (math.isnan(found) and math.isnan(expected))


def test_numbers_are_compared_on_the_windows_and_regions_that_all_have():
    reference = example(0, ("LOW", "KNEE", "HIGH_PRESSURE"))
    variants = {400: without_window(example(1), "azure_x", 2), 50: without_window(example(2), "azure_x", 0)}
    shared = on_shared_windows({200: reference, **variants})
    for values in shared.values():
        assert values.windows["azure_x"] == ("azure_x_w1", "azure_x_w3", "azure_x_w4", "azure_x_w5")
        assert values.regions == ("KNEE", "HIGH_PRESSURE")
    for region in ("KNEE", "HIGH_PRESSURE"):
        found = shared[200].of("azure_x", region, PRIMARY_METRIC)
        assert np.array_equal(found, reference.of("azure_x", region, PRIMARY_METRIC)[:, [1, 3, 4, 5]], equal_nan=True)
        found = shared[400].of("azure_x", region, PRIMARY_METRIC)
        assert np.array_equal(
            found, variants[400].of("azure_x", region, PRIMARY_METRIC)[:, [1, 2, 3, 4]], equal_nan=True
        )
    table = window_size.analyse(reference, variants)
    assert table["requests"].drop_duplicates().tolist() == [50, 200, 400]
    assert set(table.loc[table["source_x"] == "azure_x", "windows_x"]) == {4}


def test_nothing_shared_is_an_error():
    with pytest.raises(UserError, match="no window of bailian_x is in the run and in all variants"):
        window_size.analyse(example(), {50: without_window(example(windows=(6, 1, 7)), "bailian_x", 0)})
    with pytest.raises(UserError, match="no region is in the run and in all variants"):
        window_size.analyse(example(regions=("LOW",)), {50: example(regions=("KNEE",))})


def test_agreement_equals_loops_and_scipy(few_resamples):
    values = {200: example(0), 50: example(1)}
    table = window_size.analyse(values[200], {50: values[50]})
    assert len(table) == 2 * 2 * 3
    for row in table.to_dict("records"):
        sides = [
            condition(values[row["requests"]], row[side], row["region"], PRIMARY_METRIC)
            for side in ("source_x", "source_y")
        ]
        expected = compare(*sides, np.random.default_rng(0), RESAMPLES)
        assert {name: value for name, value in expected.items() if not same(row[name], value)} == {}


def slow_spread(own, at_200):
    """Columns of a condition from lists of windows (dictionaries by scheduler), one resample at a time."""

    def statistics(places):
        mine, theirs = (ranking([windows[place] for place in places]) for windows in (own, at_200))
        apart = [max(own[p].values()) - min(own[p].values()) for p in places if own[p]]
        spread = max(mine.values()) - min(mine.values()) if mine else math.nan
        return spread, float(np.mean(apart)) if apart else math.nan, correlate(mine, theirs)[0]

    def order(means):
        return sorted(means, key=lambda name: (-means[name], name))

    everything = range(len(own))
    whole = order(ranking(own))
    rng = np.random.default_rng(0)
    draws = [rng.choice(len(own), size=len(own), replace=True) for _ in range(RESAMPLES)]
    orders = [order(ranking([own[place] for place in draw])) for draw in draws]
    row = {
        "recovery_exact": np.mean([found == whole for found in orders]),
        "recovery_top1": np.mean([found[:1] == whole[:1] for found in orders]),
        "recovery_top3": np.mean([set(found[:3]) == set(whole[:3]) for found in orders]),
        "n_not_tied": sum(len(set(window.values())) > 1 for window in own),
    }
    resampled = np.array([statistics(draw) for draw in draws]).T
    for name, point, drawn in zip(
        ("spread", "window_spread", "tau_b_with_200"), statistics(everything), resampled, strict=True
    ):
        low, high, row["resamples_dropped"] = interval(drawn.tolist())
        row |= {name: point, f"{name}_low": low, f"{name}_high": high}
    return row


@pytest.mark.parametrize("undefined", [0.0, 0.15])
def test_spread_equals_loops_and_scipy(few_resamples, undefined):
    values = {200: example(0, undefined=undefined), 50: example(1, undefined=undefined)}
    table = window_size_spread.analyse(values[200], {50: values[50]})
    assert len(table) == 2 * 2 * 3
    for row in table.to_dict("records"):
        own, at_200 = (all_windows(values[number], row["source"], row["region"]) for number in (row["requests"], 200))
        expected = slow_spread(own, at_200)
        assert {name: value for name, value in expected.items() if not same(row[name], value)} == {}
    at_200 = table.query("requests == 200 and region == 'HIGH_PRESSURE'")  # the other region is all tied
    assert at_200["tau_b_with_200"].to_numpy() == pytest.approx(1)


def all_windows(values, source, region):
    """As `condition`, but with the windows that have no value."""
    array = values.of(source, region, PRIMARY_METRIC)
    return [{n: float(v) for n, v in zip(values.schedulers, column, strict=True) if v == v} for column in array.T]


def two_sources(rows):
    array = np.array(rows, dtype=float)[None, None]
    names = ("b", "a", "c")[: array.shape[2]]
    windows = {source: tuple(map(str, range(array.shape[-1]))) for source in "xy"}
    return WindowValues(("x", "y"), ("KNEE",), (PRIMARY_METRIC,), names, windows, dict.fromkeys("xy", array))


@pytest.mark.parametrize(
    ("rows", "spread", "recovery"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], 0, 1),  # all tied: the order is that of names
        ([[np.nan, np.nan], [np.nan, np.nan]], np.nan, np.nan),  # all undefined
        ([[0.5, 0.7], [np.nan, np.nan]], 0, np.nan),  # one scheduler: nothing to order
        ([[0.9], [0.2]], 0.7, 1),  # one window
    ],
)
def test_edges(rows, spread, recovery, tmp_path):
    values = two_sources(rows)
    for module in (window_size, window_size_spread):
        write_frame(module.analyse(values, {50: values}), module.SCHEMA, tmp_path / "t.parquet")
    table = window_size_spread.analyse(values, {50: values})
    assert table["spread"].to_numpy() == pytest.approx(spread, nan_ok=True)
    assert table["recovery_exact"].to_numpy() == pytest.approx(recovery, nan_ok=True)
    if np.isnan(rows).any() or spread == 0:
        assert table["tau_b_with_200"].isna().all()
        assert (table["resamples_dropped"] == 2000).all()
        assert window_size.analyse(values, {50: values})["tau_b"].isna().all()


def test_order_of_schedulers_breaks_ties_by_name():
    values = two_sources([[0.5, 0.5, 0.6], [0.5, 0.6, 0.5], [0.1, 0.1, 0.1]])
    found = window_size_spread.analyse(values, {50: values})["recovery_top1"].iloc[0]
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 3, size=(2000, 3))
    b, a = (np.array(row)[draws].mean(axis=1) for row in ([0.5, 0.5, 0.6], [0.5, 0.6, 0.5]))
    assert found == np.mean(a >= b)


def test_ranges():
    values = np.array([[0.2, np.nan, np.nan, 0.5], [0.7, 0.4, np.nan, 0.5], [np.nan, 0.1, np.nan, 0.5]])
    assert ranges(values).tolist()[:2] == [0.7 - 0.2, 0.4 - 0.1]
    assert np.isnan(ranges(values)[2])
    assert ranges(values)[3] == 0


def test_tau_with_200_is_scipys():
    values, other = two_sources([[0.9], [0.5], [0.1]]), two_sources([[0.5], [0.9], [0.1]])
    table = window_size_spread.analyse(values, {400: other}).query("requests == 400")
    assert table["tau_b_with_200"].tolist() == [kendalltau([0.9, 0.5, 0.1], [0.5, 0.9, 0.1])[0]] * 2

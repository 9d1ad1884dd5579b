"""Vectorised resampling against one resample at a time, NumPy's and SciPy's own functions, to the last bit."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from servestudy.statistics import bootstrap
from servestudy.statistics.bootstrap import (
    RESAMPLES,
    adjusted_p,
    agreement_intervals,
    draw,
    percentile_interval,
    present,
    resampled_means,
    tau_and_rho,
    tau_b,
)


def shares(rng, schedulers=11, windows=40, undefined=0.0):
    """Values with many ties, as shares of 200 requests are; some NaN."""
    values = rng.integers(150, 201, (schedulers, windows)) / 200
    return np.where(rng.random(values.shape) < undefined, np.nan, values)


def slow_tau_and_rho(x, y):
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < 2:
        return math.nan, math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return float(stats.kendalltau(x[both], y[both])[0]), float(stats.spearmanr(x[both], y[both])[0])


def slow_mean(values):
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan


def slow_agreement_draws(x, y, rng):
    """One resample at a time, as the study does it: draw x, draw y, average, correlate."""
    x, y = present(x), present(y)
    draws = []
    for _ in range(bootstrap.RESAMPLES):
        means = []
        for side in (x, y):
            places = rng.choice(np.arange(side.shape[1]), size=side.shape[1], replace=True)
            means.append(np.array([slow_mean(row[places]) for row in side]))
        draws.append(slow_tau_and_rho(*means))
    return np.array(draws)


def slow_interval(draws):
    defined = [value for value in draws if not math.isnan(value)]
    low, high = np.quantile(defined, [0.025, 0.975]) if defined else (math.nan, math.nan)
    return low, high, len(draws) - len(defined)


@pytest.mark.parametrize("sizes", [(40, 40), (13, 14), (1, 5), (7,), (1, 1)])
def test_draws_take_from_the_generator_what_single_choices_take(sizes):
    together, single = (np.random.default_rng(3) for _ in range(2))
    drawn = draw(together, *sizes)
    for resample in range(RESAMPLES):
        for places, size in zip(drawn, sizes, strict=True):
            assert (places[resample] == single.choice(np.arange(size), size=size, replace=True)).all()
    assert together.bit_generator.state == single.bit_generator.state


@pytest.mark.parametrize("windows", [1, 2, 7, 8, 9, 40, 129, 400])
@pytest.mark.parametrize("undefined", [0.0, 0.3, 0.9])
def test_means_equal_numpy_means_of_the_defined_values_drawn(windows, undefined):
    rng = np.random.default_rng(windows)
    values = np.where(rng.random((5, windows)) < undefined, np.nan, rng.random((5, windows)))
    (places,) = draw(rng, windows)
    means = resampled_means(values, places)
    for scheduler in range(5):
        expected = [slow_mean(values[scheduler, row]) for row in places[:300]]
        assert np.array_equal(means[scheduler, :300], expected, equal_nan=True)


@pytest.mark.parametrize("undefined", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("schedulers", [1, 2, 3, 11, 13])
def test_tau_and_rho_equal_scipy(schedulers, undefined):
    rng = np.random.default_rng(schedulers)
    x, y = (shares(rng, schedulers, 400, undefined) for _ in range(2))
    x[:, :20] = 0.5
    y[:, 10:30] = np.where(np.isnan(y[:, 10:30]), np.nan, 0.5)
    x[:, 40:80] = rng.integers(0, 3, (schedulers, 40))
    y[:, 60:80] = x[:, 60:80]
    expected = np.array([slow_tau_and_rho(*columns) for columns in zip(x.T, y.T, strict=True)])
    tau, rho = tau_and_rho(x, y)
    assert np.array_equal(tau_b(x, y), tau, equal_nan=True)
    assert np.array_equal(tau, expected[:, 0], equal_nan=True)
    assert np.array_equal(rho, expected[:, 1], equal_nan=True)
    assert np.isnan(expected).any()


@pytest.mark.parametrize("undefined", [0.0, 0.6])
def test_intervals_equal_one_resample_at_a_time(undefined, monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 300)
    data = np.random.default_rng(1)
    x, y = shares(data, 5, 6, undefined), shares(data, 5, 9, undefined)
    fast, slow = (np.random.default_rng(0) for _ in range(2))
    result = agreement_intervals(x, y, fast)
    draws = slow_agreement_draws(x, y, slow)
    assert tuple(result.tau) == slow_interval(draws[:, 0])
    assert tuple(result.rho) == slow_interval(draws[:, 1])
    assert fast.bit_generator.state == slow.bit_generator.state


def test_windows_without_any_value_are_not_drawn():
    values = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, np.nan]])
    assert np.array_equal(present(values), values[:, [0, 2]], equal_nan=True)
    rng = np.random.default_rng(0)
    agreement_intervals(values, values, rng)
    other = np.random.default_rng(0)
    draw(other, 2, 2)
    assert rng.bit_generator.state == other.bit_generator.state


def test_all_tied_all_undefined_and_one_window():
    rng = np.random.default_rng(0)
    tied = np.full((4, 6), 0.5)
    varied = np.arange(24.0).reshape(4, 6)
    result = agreement_intervals(tied, varied, rng)
    assert (result.tau.dropped, result.rho.dropped) == (RESAMPLES, RESAMPLES)
    assert all(map(math.isnan, (*result.tau[:2], *result.rho[:2])))
    state = rng.bit_generator.state
    assert agreement_intervals(np.full((4, 6), np.nan), varied, rng).tau.dropped == RESAMPLES
    assert rng.bit_generator.state == state
    one = varied[:, :1]
    assert agreement_intervals(one, one[::-1], rng).tau == (-1, -1, 0)
    assert agreement_intervals(one[:1], one[:1], rng).tau.dropped == RESAMPLES


def test_interval_drops_and_counts_undefined_resamples():
    statistics = np.array([np.nan, 3.0, 1.0, 2.0, np.nan])
    assert percentile_interval(statistics) == (*np.quantile([1.0, 2.0, 3.0], [0.025, 0.975]), 2)


def test_adjusted_p_equals_the_definition_and_leaves_undefined_out():
    p = np.array([0.001, np.nan, 0.04, 0.03, 1.0])
    order = [0.001 * 4 / 1, 0.03 * 4 / 2, 0.04 * 4 / 3, 1.0]
    expected = [order[0], math.nan, min(order[2:]), min(order[1:]), 1.0]
    assert adjusted_p(p) == pytest.approx(expected, nan_ok=True)
    assert np.isnan(adjusted_p(np.array([np.nan]))).all()
    assert len(adjusted_p(np.array([]))) == 0

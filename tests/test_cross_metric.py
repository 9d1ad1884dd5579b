"""Agreement and disagreement of metrics against slow loops: one resample, one pair, one comparison at a time."""

import itertools
import math
import warnings
import zlib

import numpy as np
import pytest
from made_values import made_values
from scipy.stats import ConstantInputWarning, kendalltau, spearmanr
from statsmodels.stats.multitest import multipletests

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import bootstrap, cross_metric_agreement, cross_metric_disagreements
from servestudy.statistics.cross_metric_disagreements import MICROSCOPIC, SAME_ORDER, SUPPORTED, UNDEFINED, WIDE_CI
from servestudy.statistics.window_values import HIGHER_IS_BETTER, METRIC_NAMES
from servestudy.tables import write_frame

LATENCY = "mean_latency"
RESAMPLES = 400
"""In place of the study's 2000 where loops draw them one by one: each is computed alike, and a test pins the 2000."""


@pytest.fixture
def few_resamples(monkeypatch):
    for module in (bootstrap, cross_metric_agreement):
        monkeypatch.setattr(module, "RESAMPLES", RESAMPLES)


def oriented(values, source, region, metric):
    """{scheduler: {window: value}} of the defined values, larger is better; windows in the study's order."""
    sign = 1 if HIGHER_IS_BETTER[metric] else -1
    return {
        scheduler: {w: sign * x for w, x in zip(values.windows[source], row, strict=True) if not np.isnan(x)}
        for scheduler, row in zip(values.schedulers, values.of(source, region, metric), strict=True)
    }


def slow_means(of_schedulers, windows=None):
    result = {}
    for scheduler, of_windows in of_schedulers.items():
        drawn = list(of_windows) if windows is None else [w for w in windows if w in of_windows]
        if drawn:
            result[scheduler] = np.mean([of_windows[w] for w in drawn])
    return result


def slow_correlation(function, a, b):
    names = sorted(set(a) & set(b))
    if len(names) < 3:
        return np.nan, np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return tuple(function([a[n] for n in names], [b[n] for n in names]))


def slow_interval(a, b, seed):
    windows = sorted({w for side in (a, b) for of_windows in side.values() for w in of_windows})
    rng = np.random.default_rng(seed)
    taus = []
    for _ in range(RESAMPLES):
        drawn = list(rng.choice(windows, size=len(windows), replace=True))
        taus.append(slow_correlation(kendalltau, slow_means(a, drawn), slow_means(b, drawn))[0])
    taus = [tau for tau in taus if not np.isnan(tau)]
    return (*(np.quantile(taus, [0.025, 0.975]) if taus else (np.nan, np.nan)), RESAMPLES - len(taus))


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(
    ("metrics", "undefined", "transform"),
    [
        ((PRIMARY_METRIC, LATENCY, "p95_ttft"), 0.0, lambda array: array),
        ((PRIMARY_METRIC, LATENCY), 0.8, lambda array: array),  # windows, resamples and schedulers fall out
        ((PRIMARY_METRIC, LATENCY), 0.0, np.zeros_like),
    ],
)
def test_agreement_equals_the_slow_one(metrics, undefined, transform):
    values = made_values(1, (9,), metrics, ("KNEE",), undefined=undefined, transform=transform)
    shuffled = ("w07", "w00", "w05", "w01", "w02", "w08", "w03", "w06", "w04")  # names out of the study's order
    values.windows["a"] = shuffled
    table = cross_metric_agreement.analyse(values)
    assert list(table.columns) == cross_metric_agreement.SCHEMA.names
    assert [tuple(pair) for pair in table[["metric_a", "metric_b"]].to_numpy()] == list(
        itertools.combinations(sorted(metrics), 2)
    )
    for row in table.itertuples():
        a, b = (oriented(values, "a", "KNEE", metric) for metric in (row.metric_a, row.metric_b))
        seed = zlib.crc32(f"a|KNEE|{row.metric_a}|{row.metric_b}".encode())
        np.testing.assert_array_equal((row.tau_low, row.tau_high, row.n_resamples_undefined), slow_interval(a, b, seed))
        means = slow_means(a), slow_means(b)
        np.testing.assert_array_equal((row.tau_b, row.tau_p), slow_correlation(kendalltau, *means))
        np.testing.assert_array_equal((row.rho, row.rho_p), slow_correlation(spearmanr, *means))
        assert row.n_schedulers == len(set(means[0]) & set(means[1]))
        assert row.n_excluded == 2 * 9 * len(values.schedulers) - sum(len(w) for s in (a, b) for w in s.values())
        if undefined:
            assert 0 < row.n_resamples_undefined < RESAMPLES


def one_region(means_by_metric, schedulers):
    """Window values of one source, region and two windows with these values in both."""

    def fill(array):
        for place, means in enumerate(means_by_metric.values()):
            array[0, place] = np.array(means, dtype=float)[:, None]
        return array

    return made_values(0, (2,), tuple(means_by_metric), ("KNEE",), schedulers, transform=fill)


@pytest.mark.parametrize(
    ("anwg", "latency", "expected"),
    [
        ([1.0, 1.0, 0.5], [2.0, 1.0, 1.0], ("a", "b", 0, 2, 2, 1, 1)),  # named a, b; equally good: a, b and b, c
        ([1.0, 0.9, 0.5], [2.0, 1.0, 1.0], ("a", "b", 0, 1, 2, 0, 0)),
        ([1.0, 0.9, 0.5], [0.5, 1.0, 1.0], ("a", "a", 1, 1, 1, 1, 1)),
        ([0.0, 0.0, 0.0], [3.0, 3.0, 3.0], ("a", "a", 1, 3, 3, 3, 1)),
    ],
)
def test_the_best_scheduler_by_name_and_tie_aware(anwg, latency, expected):
    table = cross_metric_agreement.analyse(one_region({PRIMARY_METRIC: anwg, LATENCY: latency}, ("a", "b", "c")))
    names = ["best_a", "best_b", "top1_agrees", "n_best_a", "n_best_b", "n_best_shared", "top1_agrees_tie_aware"]
    assert tuple(table[names].iloc[0]) == expected


def test_fewer_than_three_schedulers_are_not_compared(tmp_path):
    table = cross_metric_agreement.analyse(one_region({PRIMARY_METRIC: [1, 0.5], LATENCY: [1, 2]}, ("a", "b")))
    row = table.iloc[0]
    assert row["n_schedulers"] == 2
    assert row[["tau_b", "tau_p", "tau_low", "rho", "top1_agrees", "top1_agrees_tie_aware"]].isna().all()
    assert (row["best_a"], row["n_best_a"], row["n_resamples_undefined"]) == ("", 0, 2000)
    write_frame(table, cross_metric_agreement.SCHEMA, tmp_path / "t.parquet")


def test_two_pairs_of_the_eleven_metrics_are_identities():
    table = cross_metric_agreement.analyse(made_values(3, (1,), regions=("LOW",)))
    assert len(table) == 55
    identities = table.loc[table["identity"], ["metric_a", "metric_b"]].to_numpy().tolist()
    assert identities == [
        ["completion_fraction", "weighted_completion_fraction"],
        ["slo_violation_rate", "weighted_goodput"],
    ]
    assert cross_metric_disagreements.analyse(made_values(3, (1,), regions=("LOW",)))["identity"].sum() == 2 * 15


def slow_side(x, y, seed):
    """Interval and p of the paired difference of two schedulers, each {window: value}."""
    differences = [x[w] - y[w] for w in x if w in y]
    if not differences:
        return np.nan, np.nan, np.nan
    rng = np.random.default_rng(seed)
    means = [np.mean(rng.choice(differences, size=len(differences), replace=True)) for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return low, high, min(1, 2 * min(sum(m <= 0 for m in means) / RESAMPLES, sum(m >= 0 for m in means) / RESAMPLES))


def slow_margin(first, second):
    if first == second:
        return 0.0
    return abs(first - second) / abs(min(first, second)) if min(first, second) != 0 else None


def slow_disagreement(values, source, region, metrics, x, y):
    """Class, interval ends of both metrics and p."""
    sides = [oriented(values, source, region, metric) for metric in metrics]
    means = [slow_means(side) for side in sides]
    nothing = (np.nan,) * 5
    if any(name not in of_side for of_side in means for name in (x, y)):
        return UNDEFINED, *nothing
    margins = [slow_margin(of_side[x], of_side[y]) for of_side in means]
    if None in margins:
        return UNDEFINED, *nothing
    first, second = (of_side[x] - of_side[y] for of_side in means)
    if not (first > 0 > second or second > 0 > first):
        return SAME_ORDER, *nothing
    if min(margins) <= 0.10:
        return MICROSCOPIC, *nothing
    text = "|".join([source, region, *metrics, x, y])
    a, b = (
        slow_side(side[x], side[y], zlib.crc32(f"{text}|{name}".encode()))
        for side, name in zip(sides, "ab", strict=True)
    )
    supported = all(low > 0 or high < 0 for low, high, _ in (a, b))
    return SUPPORTED if supported else WIDE_CI, *a[:2], *b[:2], max(a[2], b[2])


def spread_out(array):
    """Schedulers far apart, the best by the first metric the worst by the others; some zeros and gaps."""
    array += np.arange(array.shape[2])[:, None] ** 2 / 100
    array[0, 0, 2] = 0.0  # a loser at zero by a metric where larger is better
    array[1, 1, 4, 2:] = np.nan
    array[1, 1, 3] = np.nan
    return array


@pytest.mark.usefixtures("few_resamples")
def test_disagreements_equal_the_slow_ones():
    metrics = (PRIMARY_METRIC, LATENCY, "p95_ttft")
    values = made_values(4, (12,), metrics, ("KNEE", "OVERLOAD"), transform=spread_out, levels=50)
    table = cross_metric_disagreements.analyse(values)
    assert list(table.columns) == cross_metric_disagreements.SCHEMA.names
    assert len(table) == 2 * 3 * 15
    names = ["disagreement", "low_a", "high_a", "low_b", "high_b", "p"]
    for row in table.itertuples():
        key = row.source, row.region, (row.metric_a, row.metric_b), row.scheduler_x, row.scheduler_y
        found, expected = [getattr(row, name) for name in names], slow_disagreement(values, *key)
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1:], expected[1:])
    assert set(table["disagreement"]) == {UNDEFINED, SAME_ORDER, MICROSCOPIC, WIDE_CI, SUPPORTED}
    for _, family in table.groupby(["source", "region", "metric_a", "metric_b"]):
        tested = family["p"].notna()
        if tested.any():
            assert (multipletests(family["p"][tested], 0.05, "fdr_bh")[0] == family["fdr_rejected"][tested]).all()
        assert not family["fdr_rejected"][~tested].any()


def test_margins_are_relative_to_the_loser_also_where_smaller_is_better():
    table = cross_metric_disagreements.analyse(one_region({PRIMARY_METRIC: [0.8, 0.4], LATENCY: [3, 2]}, ("a", "b")))
    row = table.iloc[0]
    assert (row["metric_a"], row["metric_b"]) == (PRIMARY_METRIC, LATENCY)
    assert row["margin_a"] == 0.4 / 0.4
    assert row["margin_b"] == 1 / 3
    assert (row["difference_a"], row["difference_b"]) == (0.4, -1)
    assert row["disagreement"] == SUPPORTED
    assert (row["low_b"], row["high_b"], row["p"]) == (-1, -1, 0)


def test_tied_undefined_and_single_inputs(tmp_path):
    tied = cross_metric_disagreements.analyse(made_values(5, (3,), METRIC_NAMES[:3], transform=np.zeros_like))
    assert set(tied["disagreement"]) == {SAME_ORDER}
    assert (tied[["margin_a", "margin_b"]] == 0).all(axis=None)
    nothing = made_values(6, (3,), METRIC_NAMES[:3], transform=lambda array: np.full_like(array, np.nan))
    undefined = cross_metric_disagreements.analyse(nothing)
    assert set(undefined["disagreement"]) == {UNDEFINED}
    assert (undefined["n_excluded"] == 2 * 2 * 3).all()
    agreement = cross_metric_agreement.analyse(nothing)
    assert agreement["tau_low"].isna().all()
    assert (agreement["n_schedulers"] == 0).all()
    write_frame(undefined, cross_metric_disagreements.SCHEMA, tmp_path / "t.parquet")
    for values in (
        made_values(7, (3,), METRIC_NAMES[:3], schedulers=("bare",)),
        made_values(8, (3,), (PRIMARY_METRIC,)),
    ):
        alone = cross_metric_disagreements.analyse(values)
        assert len(alone) == 0
        write_frame(alone, cross_metric_disagreements.SCHEMA, tmp_path / "alone.parquet")
        write_frame(cross_metric_agreement.analyse(values), cross_metric_agreement.SCHEMA, tmp_path / "a.parquet")


def test_no_best_scheduler_is_named_where_no_value_is():
    found = cross_metric_agreement.best(np.array([]), np.array([]), np.array([], dtype=str))
    assert found["best_a"] == ""
    assert math.isnan(found["top1_agrees"])

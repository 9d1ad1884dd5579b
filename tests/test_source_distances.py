"""Distances of sources and strata against plain loops; missing and constant features, groups of one window."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from made_features import feature_table
from scipy import stats
from statsmodels.stats.multitest import multipletests

from servestudy.statistics import cross_against_within, feature_distances, source_distances
from servestudy.statistics.source_distances import cohen_d, comparisons, mahalanobis, mmd2, standardised
from servestudy.statistics.workload_features import FEATURES, STRATA

KEYS = [field.name for field in source_distances.COMPARISON_COLUMNS]


@pytest.fixture(scope="module")
def table():
    return feature_table(counts=(9, 12, 15), distance=1, missing=0.04)


def rows_of(table, source, stratum):
    rows = table[table["source"] == source]
    return (rows if stratum == "all" else rows[rows["stratum"] == stratum])[list(FEATURES)].to_numpy()


def z_by_hand(values):
    """The same, one column at a time."""
    columns = []
    for column in values.T:
        column = np.where(np.isnan(column), np.median(column[~np.isnan(column)]), column)
        columns.append((column - column.mean()) / column.std() if column.std() else column * 0)
    return np.array(columns).T


def slow_mmd2(x, y):
    def squared(a, b):
        return sum((p - q) ** 2 for p, q in zip(a, b, strict=True))

    both = [*x, *y]
    median = np.median([squared(a, b) for a, b in itertools.combinations(both, 2)])
    kernel = lambda a, b: math.exp(-squared(a, b) / (2 * median))  # noqa: E731
    inner = [
        sum(kernel(a, b) for i, a in enumerate(side) for j, b in enumerate(side) if i != j)
        / len(side)
        / (len(side) - 1)
        for side in (x, y)
    ]
    return sum(inner) - 2 * sum(kernel(a, b) for a in x for b in y) / len(x) / len(y)


def test_every_pair_of_sources_and_of_strata_of_one_source_is_compared(table):
    keys = [tuple(pair.keys.values()) for pair in comparisons(table)]
    sources = [("sources", x, "all", y, "all") for x, y in (("s0", "s1"), ("s0", "s2"), ("s1", "s2"))]
    strata = [("strata", s, x, s, y) for s in ("s0", "s1", "s2") for x, y in itertools.combinations(STRATA, 2)]
    assert keys == sources + strata
    for pair in comparisons(table):
        _, source_x, stratum_x, source_y, stratum_y = pair.keys.values()
        np.testing.assert_array_equal(pair.x, rows_of(table, source_x, stratum_x))
        np.testing.assert_array_equal(pair.y, rows_of(table, source_y, stratum_y))


def test_distances_equal_plain_loops(table):
    result = source_distances.distances(table)
    assert list(result.columns) == source_distances.SCHEMA.names
    for row in result.itertuples():
        x, y = (rows_of(table, row.source_x, row.stratum_x), rows_of(table, row.source_y, row.stratum_y))
        z = z_by_hand(np.concatenate([x, y]))
        zx, zy = z[: len(x)], z[len(x) :]
        difference = np.array([a.mean() - b.mean() for a, b in zip(zx.T, zy.T, strict=True)])
        assert (row.windows_x, row.windows_y) == (len(x), len(y))
        assert row.values_missing == np.isnan(x).sum() + np.isnan(y).sum()
        assert row.euclid == pytest.approx(math.sqrt(sum(d * d for d in difference)), rel=1e-12)
        covariance = sum(
            np.array([[np.cov(a, b)[0, 1] for b in side.T] for a in side.T]) / 2 for side in (zx, zy)
        )  # one element at a time
        for i in range(len(FEATURES)):
            covariance[i, i] += (
                0.001 * sum(np.var(a, ddof=1) + np.var(b, ddof=1) for a, b in zip(zx.T, zy.T, strict=True)) / 62
            )
        expected = math.sqrt(difference @ np.linalg.solve(covariance, difference))
        assert row.mahalanobis == pytest.approx(expected, rel=1e-8)
        assert row.mmd2 == pytest.approx(slow_mmd2(zx, zy), abs=1e-12)
        effects = {
            n: abs(cohen_d(a[~np.isnan(a)], b[~np.isnan(b)])) for n, a, b in zip(FEATURES, x.T, y.T, strict=True)
        }
        assert (row.largest_abs_d, row.largest_abs_d_feature) == max((v, n) for n, v in effects.items())


def test_cohens_d_is_the_t_statistic_without_the_counts():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=8), rng.normal(1, 2, size=13)
    assert cohen_d(x, y) == pytest.approx(stats.ttest_ind(x, y).statistic * math.sqrt(1 / 8 + 1 / 13), rel=1e-13)
    assert math.isnan(cohen_d(np.ones(5), np.full(4, 2.0)))
    assert math.isnan(cohen_d(np.array([1.0]), y))


def test_alike_groups_have_an_mmd_around_zero_and_far_groups_of_two():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 60, 3))
    assert abs(mmd2(x, y)) < 0.02
    assert mmd2(x, y + 100) > 0.5
    assert math.isnan(mmd2(np.ones((3, 2)), np.ones((4, 2))))


def test_constant_and_absent_features_do_not_count(table):
    changed = table.assign(interarrival_cv=2.0, burstiness_b=np.nan)
    z = standardised(changed[list(FEATURES)].to_numpy())
    places = [FEATURES.index(name) for name in ("interarrival_cv", "burstiness_b")]
    assert (z[:, places] == 0).all()
    result = source_distances.distances(changed)
    assert np.isfinite(result[["euclid", "mahalanobis", "mmd2", "largest_abs_d"]].to_numpy()).all()
    single = feature_distances.distances(changed).set_index("feature")
    assert single.loc["interarrival_cv", "cohen_d"].isna().all()
    assert (single.loc["interarrival_cv", ["ks", "wasserstein_z"]] == 0).all(axis=None)
    absent = single.loc["burstiness_b"]
    assert (
        absent[["mean_x", "mean_low_y", "cohen_d", "ks", "ks_p", "ks_p_adjusted", "wasserstein_z"]]
        .isna()
        .all(axis=None)
    )
    assert (absent["windows_x"] == 0).all()
    assert (absent["windows_undefined_x"] > 0).all()


def test_single_windows_have_no_spread():
    table = feature_table(counts=(1, 1, 3), missing=0)
    result = source_distances.distances(table).set_index(KEYS)
    assert len(result) == 6  # three pairs of sources, three of strata
    assert result[["mahalanobis", "mmd2", "largest_abs_d"]].isna().all(axis=None)
    assert (result["largest_abs_d_feature"] == "").all()
    assert (result["euclid"] > 0).all()
    assert math.isnan(mahalanobis(np.ones((3, 2)), np.zeros((3, 2))))
    single = feature_distances.distances(table)
    assert (single["mean_low_x"] == single["mean_x"]).all()


@pytest.mark.parametrize("counts", [(9,), (1,)])
def test_one_source_is_only_compared_with_itself(counts):
    table = feature_table(counts=counts)
    strata = 3 if counts == (9,) else 0
    assert len(source_distances.distances(table)) == strata
    assert len(feature_distances.distances(table)) == strata * len(FEATURES)
    row = cross_against_within.compare(table).iloc[0]
    assert (row["sources"], row["cross_pairs"], row["within_pairs"]) == (1, 0, 27 if strata else 0)
    assert math.isnan(row["effect_published"])


def test_feature_distances_equal_scipy_and_statsmodels(table):
    result = feature_distances.distances(table)
    assert list(result.columns) == feature_distances.SCHEMA.names
    assert len(result) == 12 * len(FEATURES)
    for row in result.iloc[::7].itertuples():
        place = FEATURES.index(row.feature)
        x = rows_of(table, row.source_x, row.stratum_x)[:, place]
        y = rows_of(table, row.source_y, row.stratum_y)[:, place]
        assert row.windows_undefined_x == np.isnan(x).sum()
        x, y = x[~np.isnan(x)], y[~np.isnan(y)]
        assert (row.windows_x, row.windows_y) == (len(x), len(y))
        rng = np.random.default_rng(0)
        means = [np.mean(x[rng.integers(0, len(x), len(x))]) for _ in range(2000)]
        assert (row.mean_low_x, row.mean_high_x) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=1e-15)
        test = stats.ks_2samp(x, y)
        assert (row.ks, row.ks_p) == (test.statistic, test.pvalue)
        both = np.concatenate([x, y])
        z = [(side - both.mean()) / both.std() for side in (x, y)]
        assert row.wasserstein_z == pytest.approx(stats.wasserstein_distance(*z), rel=1e-11)
    one = result[result["feature"] == "interarrival_cv"]
    for family in (
        one[one["comparison"] == "sources"],
        one[(one["comparison"] == "strata") & (one["source_x"] == "s1")],
    ):
        assert len(family) == 3
        assert family["ks_p_adjusted"].tolist() == pytest.approx(
            multipletests(family["ks_p"], method="fdr_bh")[1].tolist()
        )


def test_undefined_p_values_take_no_place_in_the_correction(table):
    changed = table.copy()
    changed.loc[changed["source"] == "s2", "interarrival_cv"] = np.nan
    one = feature_distances.distances(changed).query("feature == 'interarrival_cv' and comparison == 'sources'")
    assert one["ks_p"].isna().tolist() == [False, True, True]
    assert one["ks_p_adjusted"].iloc[0] == one["ks_p"].iloc[0]


def test_the_published_effect_is_negative_where_sources_are_farther_apart(table):
    far = table.copy()
    far.loc[far["source"] == "s1", list(FEATURES)] += 50
    row = cross_against_within.compare(far).iloc[0]
    assert row["cross_median"] > row["within_median"]
    assert row["effect_published"] < -0.5
    assert row["effect_cross_farther"] == -row["effect_published"]


def test_cross_against_within_equals_counting_pairs(table):
    row = cross_against_within.compare(table).iloc[0]
    z = z_by_hand(table[list(FEATURES)].to_numpy())
    cross, within = [], []
    for i, j in itertools.combinations(range(len(table)), 2):
        apart = math.dist(z[i], z[j])
        if table["source"][i] != table["source"][j]:
            cross.append(apart)
        elif table["stratum"][i] != table["stratum"][j]:
            within.append(apart)
    assert (row["cross_pairs"], row["within_pairs"]) == (len(cross), len(within))
    u = sum((c > w) + 0.5 * (c == w) for c in cross for w in within)
    assert row["mann_whitney_u"] == u
    assert row["effect_cross_farther"] == pytest.approx(2 * u / len(cross) / len(within) - 1, abs=1e-15)
    assert row["mann_whitney_p"] == stats.mannwhitneyu(cross, within).pvalue


def test_nothing_gives_empty_tables(table):
    assert source_distances.distances(table[:0]).empty
    assert feature_distances.distances(table[:0]).empty
    assert pd.isna(cross_against_within.compare(table[:0])["effect_published"]).all()

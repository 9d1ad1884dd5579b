"""Non-tied conditions and the pilot's criteria against plain counting; intervals against statsmodels."""

import itertools

import numpy as np
import pytest
from made_values import made_values, published_values
from statsmodels.stats.proportion import proportion_confint

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import discriminability, pilot_criteria
from servestudy.statistics.discriminability import ALL, wilson_interval
from servestudy.tables import write_frame

LATENCY, VIOLATION, COMPLETION = "p95_latency", "slo_violation_rate", "completion_fraction"
PILOT = pilot_criteria.SCHEDULERS
PILOT_METRICS = (PRIMARY_METRIC, COMPLETION, VIOLATION, LATENCY)


def slow_range(values, source, region, metric, window):
    column = [x for x in values.of(source, region, metric)[:, window] if not np.isnan(x)]
    return max(column) - min(column) if len(column) >= 2 else None


def slow_counts(values, metric, sources, regions, counted):
    """n, n_non_tied, n_not_comparable"""
    found = []
    for source in sources:
        for window in range(len(values.windows[source])):
            of_regions = [slow_range(values, source, region, metric, window) for region in regions]
            if counted == "window":
                of_regions = [max((r for r in of_regions if r is not None), default=None)]
            found += of_regions
    return sum(r is not None for r in found), sum(r is not None and r > 1e-6 for r in found), found.count(None)


def tied_often(array):
    """The first half of the windows tied, some by less than the tolerance."""
    half = array.shape[3] // 2
    array[..., :half] = 0.5
    array[..., 0, 1] += 1e-7
    array[1, :, 0, 0] += 1e-5
    return array


@pytest.mark.parametrize("undefined", [0.0, 0.8])
def test_counts_equal_plain_counting(undefined):
    def transform(array):
        array = np.where(np.isnan(array), np.nan, tied_often(array.copy()))
        return np.where(np.random.default_rng(1).random(array.shape) < undefined, np.nan, array)

    values = made_values(0, (12, 7), (PRIMARY_METRIC, LATENCY), ("LOW", "KNEE"), transform=transform)
    table = discriminability.analyse(values)
    assert list(table.columns) == discriminability.SCHEMA.names
    assert len(table) == 2 * 3 * (2 + 2)
    for row in table.itertuples():
        sources = values.sources if row.source == ALL else [row.source]
        regions = values.regions if row.region == ALL else [row.region]
        expected = slow_counts(values, row.metric, sources, regions, row.counted)
        assert (row.n, row.n_non_tied, row.n_not_comparable) == expected
        assert row.share == row.n_non_tied / row.n
        assert (row.low, row.high) == wilson_interval(row.n_non_tied, row.n)
        undefined_values = sum(np.isnan(values.of(s, r, row.metric)).sum() for s in sources for r in regions)
        assert row.n_excluded == undefined_values
    assert table["n_non_tied"].min() < table["n"].max()
    assert (table["n_not_comparable"].max() > 0) == (undefined > 0)


def test_wilson_intervals_are_those_of_statsmodels_and_of_the_published_pilot():
    for count, n in itertools.product((0, 1, 7, 30), (30, 40, 720)):
        expected = proportion_confint(count, n, 0.05, "wilson")
        assert wilson_interval(count, n) == pytest.approx(expected, abs=1e-14)
    published = {(30, 30): (0.886, 1.0), (10, 30): (0.192, 0.512), (10, 10): (0.722, 1.0), (6, 10): (0.313, 0.832)}
    for (count, n), ends in published.items():
        assert tuple(round(end, 3) for end in wilson_interval(count, n)) == ends
    assert np.isnan(wilson_interval(0, 0)).all()


def test_undefined_and_single_schedulers_cannot_be_compared(tmp_path):
    for values in (
        made_values(1, (3,), (PRIMARY_METRIC,), transform=lambda array: np.full_like(array, np.nan)),
        made_values(2, (3,), (PRIMARY_METRIC,), schedulers=("bare",)),
    ):
        table = discriminability.analyse(values)
        assert (table["n"] == 0).all()
        assert table[["share", "low", "high"]].isna().all(axis=None)
        assert set(table["n_not_comparable"]) == {3, 18}
        write_frame(table, discriminability.SCHEMA, tmp_path / "t.parquet")
    one = discriminability.analyse(made_values(3, (1,), (PRIMARY_METRIC,), transform=np.zeros_like))
    assert set(one["n_non_tied"]) == {0}
    assert set(one["n"]) == {1, 6}


def slow_pilot(values, n_windows):
    """{(criterion, source): (count, of)}"""
    triples = {}
    for source, region in itertools.product(values.sources, ("PRE_KNEE", "KNEE", "OVERLOAD")):
        for window in range(min(n_windows, len(values.windows[source]))):
            triples[source, window, region] = {
                metric: [values.of(source, region, metric)[values.schedulers.index(s), window] for s in PILOT]
                for metric in PILOT_METRICS
            }

    def spread(numbers):
        defined = [x for x in numbers if not np.isnan(x)]
        return (max(defined) - min(defined), min(defined)) if len(defined) >= 2 else (None, None)

    def wide(numbers):
        difference, smallest = spread(numbers)
        return difference is not None and difference > 0.1 * smallest

    non_tied = [key for key, of in triples.items() if (spread(of[PRIMARY_METRIC])[0] or 0) > 1e-6]
    windows = {key[:2] for key in triples}
    expected = {
        ("non_tied_triples", ""): (len(non_tied), len(triples)),
        ("non_tied_windows", ""): (len({key[:2] for key in non_tied}), len(windows)),
        ("some_triple_not_degenerate", ""): (
            sum(
                any(x not in (1,) for x in of[COMPLETION]) and any(x != 0 for x in of[COMPLETION])
                for of in triples.values()
            ),
            len(triples),
        ),
    }
    for name, forced in (("", None), ("_undefined_violation_0", 0), ("_undefined_violation_1", 1)):
        met = 0
        for key in non_tied:
            violation = [forced if np.isnan(x) and forced is not None else x for x in triples[key][VIOLATION]]
            met += wide(triples[key][LATENCY]) or wide(violation)
        expected["meaningful_variation" + name, ""] = met, len(non_tied)
    for source in values.sources:
        expected["source_share", source] = sum(key[0] == source for key in non_tied), len(non_tied)
    return expected


def pilot_values(seed):
    """ANWG often tied, latency nearly alike, a scheduler without completions here and there."""

    def transform(array):
        rng = np.random.default_rng(seed)
        tied = rng.random((array.shape[0], 1, array.shape[3])) < 0.4
        array[:, 0] = np.where(tied, 1.0, array[:, 0])
        array[:, 1] = (rng.random(array[:, 1].shape) > 0.15).astype(float)
        array[:, 2] = np.where(array[:, 1] == 0, np.nan, np.round(array[:, 2], 1))
        array[:, 3] = np.where(array[:, 1] == 0, np.nan, 1 + array[:, 3] / 2)
        return array

    return made_values(seed, (12, 12, 3), PILOT_METRICS, schedulers=("extra", *PILOT), transform=transform, levels=30)


@pytest.mark.parametrize(("scope", "n_windows"), [("first_ten_windows", 10), ("all_windows", 99)])
def test_pilot_counts_equal_plain_counting(scope, n_windows):
    values = pilot_values(4)
    table = pilot_criteria.analyse(values)
    assert list(table.columns) == pilot_criteria.SCHEMA.names
    rows = table[(table["scope"] == scope) & (table["criterion"] != "go")]
    found = {(row.criterion, row.source): (row.count, row.of) for row in rows.itertuples(index=False)}
    expected = slow_pilot(values, n_windows)
    assert found == expected
    assert 0 < expected["meaningful_variation", ""][0] < expected["meaningful_variation", ""][1]
    assert 0 < expected["some_triple_not_degenerate", ""][0] < expected["some_triple_not_degenerate", ""][1]
    assert set(table["schedulers"]) == {",".join(PILOT)}
    assert set(table["regions"]) == {"PRE_KNEE,KNEE,OVERLOAD"}


@pytest.mark.parametrize(
    ("non_tied_of_thirty", "verdicts", "go"),
    [
        ((30, 30, 10), ["pass", "pass", "pass", "fail"], "fail"),  # the published pilot: 10 of 70 is below 15 %
        ((30, 30, 30), ["pass", "pass", "pass", "pass"], "pass"),
        ((27, 0, 0), ["pass", "fail", "fail", "fail"], "fail"),
        ((26, 0, 0), ["fail", "fail", "fail", "fail"], "fail"),
    ],
)
def test_verdicts_follow_the_bounds(non_tied_of_thirty, verdicts, go):
    values = made_values(5, (10, 10, 10), PILOT_METRICS, schedulers=PILOT, transform=np.ones_like)
    for source, count in zip(values.sources, non_tied_of_thirty, strict=True):
        places = [values.regions.index(region) for region in ("PRE_KNEE", "KNEE", "OVERLOAD")]
        for window, region in list(itertools.product(range(10), places))[:count]:
            values.values[source][region, :, 0, window] = 0.5
    table = pilot_criteria.analyse(values)
    table = table[table["scope"] == "first_ten_windows"].set_index(["criterion", "source"])
    assert table["count"]["non_tied_triples", ""] == sum(non_tied_of_thirty)
    found = [table["verdict"][key] for key in (("non_tied_triples", ""), ("non_tied_windows", ""))]
    found += [table["verdict"]["source_share", source] for source in ("a", "c")]
    assert found == verdicts
    assert table["verdict"]["some_triple_not_degenerate", ""] == "pass"
    assert table["verdict"]["meaningful_variation", ""] == "pass"
    assert table["verdict"]["go", ""] == go
    assert table["of"]["go", ""] == 5


def test_all_degenerate_triples_fail_and_missing_metrics_cannot_be_judged(tmp_path):
    tied = pilot_criteria.analyse(made_values(6, (4,), PILOT_METRICS, schedulers=PILOT, transform=np.ones_like))
    verdicts = tied.groupby("criterion")["verdict"].first()
    assert verdicts["some_triple_not_degenerate"] == "fail"
    assert verdicts["meaningful_variation"] == "not evaluable"
    assert verdicts["go"] == "fail"
    alone = pilot_criteria.analyse(made_values(7, (4,), (PRIMARY_METRIC,), schedulers=PILOT))
    verdicts = alone.groupby("criterion")["verdict"].first()
    assert verdicts["some_triple_not_degenerate"] == "not evaluable"
    assert verdicts["meaningful_variation"] == "not evaluable"
    assert verdicts["meaningful_variation_undefined_violation_0"] == "not evaluable"
    nothing = pilot_criteria.analyse(made_values(8, (4,), (LATENCY,), schedulers=PILOT))
    assert len(nothing) == 0
    undefined = pilot_criteria.analyse(
        made_values(9, (4,), PILOT_METRICS, schedulers=PILOT, transform=lambda array: np.full_like(array, np.nan))
    )
    assert set(undefined["verdict"]) == {"not evaluable"}
    for number, table in enumerate((tied, alone, nothing, undefined)):
        write_frame(table, pilot_criteria.SCHEMA, tmp_path / f"{number}.parquet")


def test_published_windows(shared, tmp_path):
    """Six published windows, two regions, no style approximation: the criteria take what there is."""
    values = published_values(shared, tmp_path)
    table = discriminability.analyse(values)
    for row in table.itertuples():
        sources = values.sources if row.source == ALL else [row.source]
        regions = values.regions if row.region == ALL else [row.region]
        assert (row.n, row.n_non_tied, row.n_not_comparable) == slow_counts(
            values, PRIMARY_METRIC, sources, regions, row.counted
        )
    assert set(table["region"]) == {"KNEE", "HIGH_PRESSURE", ALL}
    pilot = pilot_criteria.analyse(values)
    assert set(pilot["regions"]) == {"KNEE"}
    assert set(pilot["schedulers"]) == {"fifo,edf,kv_constrained_online,vllm_faithful,sarathi_faithful"}
    assert set(pilot.loc[pilot["criterion"] == "non_tied_triples", "of"]) == {6}

"""SLO sensitivity: agreement against loops and SciPy, every fate of a reversal."""

import math

import numpy as np
import pytest
from made_values import made_values
from slow_study import RESAMPLES, compare, condition, correlate, example_values, interval, ranking

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import bootstrap, reversals, slo_agreement, slo_persistence
from servestudy.statistics.bootstrap import adjusted_p
from servestudy.statistics.variants import primary_only
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import read_table, write_frame


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


def example(seed=0, undefined=0.1, **options):
    """Values of the primary metric, some of them undefined."""
    values = primary_only(example_values(seed, metrics=(PRIMARY_METRIC,), **options))
    rng = np.random.default_rng(seed + 100)
    for array in values.values.values():
        array[rng.random(array.shape) < undefined] = np.nan
    return values


def same(found, expected):
    return found == expected or (math.isnan(found) and math.isnan(expected))


# Agreement


@pytest.mark.parametrize("undefined", [0.0, 0.15])
def test_agreement_equals_loops_and_scipy(few_resamples, undefined):
    reference, variants = example(0, undefined), {10: example(1, undefined), 40: example(2, undefined)}
    table = slo_agreement.analyse(reference, variants)
    assert len(table) == 2 * 2 * 6 * 3
    assert table["rule"].tolist() == ["independent"] * 36 + ["paired"] * 36
    for row in table.to_dict("records"):
        sides = [
            condition(values, row["source"], row["region"], PRIMARY_METRIC)
            for values in (variants[row["multiplier"]], reference)
        ]
        expected = compare(*sides, np.random.default_rng(0), RESAMPLES)
        if row["rule"] == "paired":
            expected |= paired(variants[row["multiplier"]], reference, row["source"], row["region"])
        assert {name: value for name, value in expected.items() if not same(row[name], value)} == {}


def paired(variant, reference, source, region):
    """Interval columns, one resample at a time: each drawn window counts on both sides."""
    x, y = (
        values.values[source][values.regions.index(region), values.metrics.index(PRIMARY_METRIC)].T
        for values in (variant, reference)
    )
    pairs = [
        tuple(
            {name: v for name, v in zip(reference.schedulers, side, strict=True) if not math.isnan(v)}
            for side in (x[window], y[window])
        )
        for window in range(len(x))
    ]
    pairs = [pair for pair in pairs if any(pair)]
    rng = np.random.default_rng(0)
    taus, rhos = [], []
    for _ in range(RESAMPLES):
        drawn = [pairs[place] for place in rng.integers(0, len(pairs), size=len(pairs))]
        tau, _, rho, _ = correlate(*(ranking(list(side)) for side in zip(*drawn, strict=True)))
        taus.append(tau)
        rhos.append(rho)
    tau_low, tau_high, dropped = interval(taus)
    rho_low, rho_high, _ = interval(rhos)
    columns = {"tau_low": tau_low, "tau_high": tau_high, "rho_low": rho_low, "rho_high": rho_high}
    return columns | {"resamples_dropped": dropped}


def test_the_same_values_agree_in_every_paired_resample():
    values = primary_only(made_values())
    table = slo_agreement.analyse(values, {10: values})
    rows = table.set_index("rule")
    assert rows[["tau_b", "rho", "top1_overlap"]].to_numpy() == pytest.approx(1, abs=1e-12)
    assert rows.loc["paired", ["tau_low", "tau_high"]].to_numpy() == pytest.approx(1, abs=1e-12)
    assert (rows.loc["independent", "tau_low"] < 1).any(), "windows drawn apart look like another SLO"


def test_best_schedulers_and_ties():
    reference = one_source([[0.9, 0.9], [0.9, 0.9], [0.1, 0.1]])
    tied_with_another = one_source([[0.5, 0.5], [0.9, 0.9], [0.9, 0.9]])
    other = one_source([[0.5, 0.5], [0.4, 0.4], [0.9, 0.9]])
    table = slo_agreement.analyse(reference, {10: tied_with_another, 40: other}).query("rule == 'paired'")
    assert table["best_reference"].tolist() == ["a, b", "a, b"]
    assert table["best_variant"].tolist() == ["b, c", "c"]
    assert table["top1_overlap"].tolist() == [0, 0], "the published rule breaks ties by name"
    assert table["best_changes"].tolist() == [False, True]


def one_source(rows):
    array = np.array(rows, dtype=float)[None, None]
    names = ("a", "b", "c")[: array.shape[2]]
    windows = {"x": tuple(map(str, range(array.shape[-1])))}
    return WindowValues(("x",), ("KNEE",), (PRIMARY_METRIC,), names, windows, {"x": array})


@pytest.mark.parametrize(
    "rows",
    [
        [[0.5, 0.5], [0.5, 0.5]],  # all tied
        [[np.nan, np.nan], [np.nan, np.nan]],  # all undefined
        [[0.5, 0.7], [np.nan, np.nan]],  # one scheduler
    ],
)
def test_agreement_without_a_tau(rows, tmp_path):
    values = one_source(rows)
    table = slo_agreement.analyse(values, {10: values})
    assert table["tau_b"].isna().all()
    assert table["tau_low"].isna().all()
    assert table["resamples_dropped"].tolist() == [2000, 2000]
    assert not table["best_changes"].any()
    write_frame(table, slo_agreement.SCHEMA, tmp_path / "t.parquet")


def test_agreement_of_one_window():
    table = slo_agreement.analyse(one_source([[0.5], [0.7]]), {10: one_source([[0.6], [0.5]])})
    assert (table[["tau_b", "tau_low", "tau_high"]] == -1).all(axis=None)


# Persistence: schedulers a and b in sources x and y, the reversal is a > b in x and a < b in y

ABOVE, BELOW = ([0.8, 0.9, 0.8], [0.2, 0.3, 0.1]), ([0.2, 0.3, 0.1], [0.8, 0.9, 0.8])
TIED = ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])
CLOSE = ([0.52, 0.52, 0.52], [0.5, 0.5, 0.5])
WIDE = ([0.9, 0.1, 0.5], [0.2, 0.6, 0.4])
AGAINST_ZERO = ([0.5, 0.6, 0.5], [0.0, 0.0, 0.0])
NONE = ([np.nan] * 3, [0.5] * 3)


def two_sources(x, y, regions=("KNEE",)):
    arrays = {name: np.array(side)[None, None].repeat(len(regions), axis=0) for name, side in (("x", x), ("y", y))}
    windows = {name: ("0", "1", "2") for name in arrays}
    return WindowValues(("x", "y"), regions, (PRIMARY_METRIC,), ("a", "b"), windows, arrays)


@pytest.mark.parametrize(
    ("x", "y", "fate"),
    [
        (ABOVE, BELOW, "PERSISTS"),
        (ABOVE, ABOVE, "DISAPPEARS"),
        (ABOVE, TIED, "DISAPPEARS"),
        (CLOSE, BELOW, "BECOMES_UNSUPPORTED"),
        (WIDE, BELOW, "BECOMES_UNSUPPORTED"),
        (ABOVE, NONE, "UNDEFINED"),
        (NONE, BELOW, "UNDEFINED"),
        (AGAINST_ZERO, BELOW, "UNDEFINED"),
        (BELOW, ABOVE, "DIRECTION_CHANGE"),
        (BELOW, BELOW, "DIRECTION_CHANGE"),
        (TIED, BELOW, "DIRECTION_CHANGE"),
    ],
)
def test_every_fate_of_a_reversal(x, y, fate):
    own = reversals.analyse(two_sources(ABOVE, BELOW))
    table = slo_persistence.analyse(own, {10: two_sources(x, y)}).query("rule == 'published'")
    assert table[["multiplier", "outcome"]].to_numpy().tolist() == [[10, fate], [20, "PERSISTS"]]
    assert table["outcome_after_fdr"].tolist() == [fate, "PERSISTS"]
    assert table["difference_x_reference"].tolist() == own["difference_x"][:1].tolist() * 2


def test_the_oriented_rule_does_not_lose_a_reversal_against_zero():
    own = reversals.analyse(two_sources(ABOVE, BELOW))
    table = slo_persistence.analyse(own, {10: two_sources(AGAINST_ZERO, BELOW)}).query("multiplier == 10")
    assert table.set_index("rule")["outcome"].to_dict() == {"published": "UNDEFINED", "oriented": "PERSISTS"}


def test_no_supported_reversal_gives_an_empty_table(tmp_path):
    own = reversals.analyse(two_sources(ABOVE, ABOVE))
    table = slo_persistence.analyse(own, {10: two_sources(ABOVE, BELOW)})
    assert len(table) == 0
    write_frame(table, slo_persistence.SCHEMA, tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", slo_persistence.SCHEMA).num_rows == 0


def test_a_region_without_variant_has_no_rows():
    own = reversals.analyse(two_sources(ABOVE, BELOW, ("LOW", "KNEE")))
    table = slo_persistence.analyse(own, {10: two_sources(ABOVE, BELOW, ("KNEE",))})
    assert set(table["region"]) == {"KNEE"}
    assert table.groupby(["rule", "multiplier"]).size().tolist() == [1, 1, 1, 1]


def test_one_family_of_p_values_a_multiplier_and_region():
    own = reversals.analyse(example(3, 0.0, windows=(12, 12, 12)))
    variants = {10: example(4, 0.0, windows=(12, 12, 12))}
    table = slo_persistence.analyse(own, variants)
    everything = reversals.analyse(variants[10])
    keys = ["rule", "region", "source_x", "source_y", "scheduler_a", "scheduler_b"]
    tested = everything[everything["p"].notna()]
    expected = tested.assign(q=tested.groupby(["rule", "region"])["p"].transform(lambda p: adjusted_p(p.to_numpy())))
    found = table.query("multiplier == 10").merge(expected[[*keys, "q"]], on=keys, how="left", validate="1:1")
    assert found["q"].notna().any()
    assert found["p_adjusted"].equals(found["q"])
    kept = found["outcome_after_fdr"] == "PERSISTS"
    assert (kept == ((found["outcome"] == "PERSISTS") & (found["q"] <= 0.05))).all()


def test_reversals_without_values_are_named():
    own = reversals.analyse(two_sources(ABOVE, BELOW))
    with pytest.raises(UserError, match="variant 10: no values of b, which has a reversal"):
        slo_persistence.analyse(own, {10: two_sources(ABOVE, BELOW).only(["a"])})

"""SLO sensitivity: agreement against loops and SciPy, every fate of a reversal, who decides by deadlines."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from made_values import made_values
from slow_study import RESAMPLES, compare, condition, correlate, example_values, interval, ranking

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics import bootstrap, reversals, slo_agreement, slo_deadline_users, slo_persistence
from servestudy.statistics.bootstrap import adjusted_p
from servestudy.statistics.variants import load_variants, primary_only
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import read_table, write_frame, write_table


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


# Who decides by deadlines, and the command line


def cell(source, window, region, scheduler, outcome, value):
    row = {field.name: 0 if pa.types.is_integer(field.type) else 0.0 for field in CELL_SCHEMA}
    row |= {"model": "published", "source": source, "window_id": f"{source}_w{window}", "window_number": window}
    row |= {"region": region, "scheduler": scheduler, "outcome_sha256": outcome, PRIMARY_METRIC: value}
    return row


@pytest.fixture
def cells(tmp_path):
    """cells(name, changed=, windows=): a file of cells of two sources; in `changed` ones the outcome is another."""

    def write(name, changed=(), windows=3, regions=("LOW", "KNEE"), sources=("x", "y"), schedulers=("edf", "fifo")):
        rows = [
            cell(s, w, r, n, "b" if (s, w, r, n) in changed else "a", (w + (n == "edf") * (s == "x") * 9) / 20)
            for s in sources
            for w in range(windows)
            for r in regions
            for n in schedulers
        ]
        path = tmp_path / f"{name}.parquet"
        write_table(pa.Table.from_pylist(rows, CELL_SCHEMA), CELL_SCHEMA, path)
        return path

    return write


def test_deadline_users_are_counted_by_source_region_and_scheduler(cells, tmp_path):
    changed = {("x", 0, "KNEE", "edf"), ("x", 2, "KNEE", "edf"), ("y", 1, "KNEE", "fifo")}
    out = tmp_path / "t.parquet"
    arguments = ["--cells", cells("run"), "--variants", f"10={cells('v', changed, regions=('KNEE',))}", "--out", out]
    assert main(["sensitivity", "slo_deadline_users", *map(str, arguments)]) == 0
    table = read_table(out, slo_deadline_users.SCHEMA).to_pandas()
    assert (table["n_windows"] == 3).all()
    assert set(table["region"]) == {"KNEE"}, "regions without a variant are not compared"
    counted = table.set_index(["source", "scheduler"])["n_changed"].to_dict()
    assert counted == {("x", "edf"): 2, ("x", "fifo"): 0, ("y", "edf"): 0, ("y", "fifo"): 1}


def test_two_runs_of_every_slo_analysis_write_the_same_bytes(cells, tmp_path):
    run, variants = cells("run"), [f"40={cells('v40')}", f"10={cells('v10', windows=3)}"]
    assert main(["statistics", "reversals", "--cells", str(run), "--out", str(tmp_path / "reversals.parquet")]) == 0
    for name, schema in (("slo_agreement", slo_agreement.SCHEMA), ("slo_persistence", slo_persistence.SCHEMA)):
        written = []
        for out in (tmp_path / "1.parquet", tmp_path / "2.parquet"):
            arguments = [name, "--cells", run, "--variants", *variants, "--reversals", tmp_path / "reversals.parquet"]
            assert main(["sensitivity", *map(str, arguments), "--out", str(out)]) == 0
            written.append(out.read_bytes())
        assert written[0] == written[1]
        read_table(out, schema)


def test_variants_must_be_of_the_same_windows_sources_and_schedulers(cells):
    run = cells("run")
    reference, variants = load_variants([run], {40: [cells("v")], 10: [cells("w")]})
    assert list(variants) == [10, 40]
    assert reference.metrics == variants[10].metrics == (PRIMARY_METRIC,)
    with pytest.raises(UserError, match="variant 10, source x: its windows are not those of the run"):
        load_variants([run], {10: [cells("short", windows=2)]})
    assert load_variants([run], {10: [cells("short", windows=2)]}, same_windows=False)[1][10].windows["x"] == (
        "x_w0",
        "x_w1",
    )
    with pytest.raises(UserError, match="variant 10, source x: window x_w3 is not in the run"):
        load_variants([run], {10: [cells("long", windows=4)]}, same_windows=False)
    with pytest.raises(UserError, match="variant 10 has the sources x, the run has x, y"):
        load_variants([run], {10: [cells("one", sources=("x",))]})
    with pytest.raises(UserError, match="no values of scheduler fifo"):
        load_variants([run], {10: [cells("edf", schedulers=("edf",))]})


def test_a_table_without_the_primary_metric_says_so(tmp_path):
    row = {"source": "x", "window_id": "w", "region": "KNEE", "scheduler": "a", "metric": "mean_ttft", "value": 1}
    pd.DataFrame([row]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UserError, match=f"no values of {PRIMARY_METRIC}"):
        load_variants([tmp_path / "t.csv"], {10: [tmp_path / "t.csv"]})


def test_persistence_needs_the_reversals(cells, tmp_path, capsys):
    arguments = ["--cells", cells("run"), "--variants", f"10={cells('v')}", "--out", tmp_path / "t.parquet"]
    assert main(["sensitivity", "slo_persistence", *map(str, arguments)]) == 1
    assert "slo_persistence needs --reversals" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["10", "ten=a", "0=a", "10=", "1.5=a"])
def test_a_variant_without_number_is_refused(text, capsys):
    with pytest.raises(SystemExit):
        main(["sensitivity", "slo_agreement", "--cells", "a", "--variants", text, "--out", "b"])
    assert "must be N" in capsys.readouterr().err

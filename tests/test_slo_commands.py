"""SLO sensitivity from cells: who decides by deadlines, what variants must be, and the command line."""

import pandas as pd
import pyarrow as pa
import pytest

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics import slo_agreement, slo_deadline_users, slo_persistence
from servestudy.statistics.variants import load_variants
from servestudy.tables import read_table, write_table


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

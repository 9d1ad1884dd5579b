"""The audit from windows to tables and figures, on two made sources: one has a long prompt in each window."""

from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_audit_rules import window as mixed_window

from servestudy.audit import diagnostics
from servestudy.audit.ablation import AUDIT_SCHEMA, affected_schedulers, simulate_ablation
from servestudy.audit.analyses import SCHEMAS, analyse, write_analyses
from servestudy.audit.defects import SWITCHES
from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.plotting.registry import AUDIT_FIGURES
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.simulation import CELL_SCHEMA, simulate_window
from servestudy.tables import read_table, write_table
from servestudy.tabulation.registry import AUDIT_TABLES
from servestudy.windows.frozen import FrozenWindow

SCHEDULERS = ["fifo", "edf", "weighted_fair_share", "estimated_service_time_first", "vllm_faithful", "slai_faithful"]
REGIONS = ["KNEE", "HIGH_PRESSURE"]
LOAD = 120.0
WINDOWS = 4


def made_window(source: str, number: int) -> FrozenWindow:
    """Short prompts that favour no throttle, or long ones at the head of the queue."""
    rng = np.random.default_rng([number, len(source)])
    prompt = rng.integers(100, 900, 40)
    if source == "with_long":
        prompt[2] = 4000
    return FrozenWindow(
        source=source,
        window_id=f"{source}_w{number:02d}",
        number=number,
        time_s=np.sort(rng.uniform(0, 1, 40)),
        prompt_tokens=prompt,
        output_tokens=rng.integers(2, 6, 40),
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Windows, loads and cells of two sources, and the cells of two switches."""
    folder = tmp_path_factory.mktemp("audit")
    made = {source: [made_window(source, n) for n in range(WINDOWS)] for source in ("with_long", "short")}
    loads = {w.window_id: LOAD for windows in made.values() for w in windows}
    cells, ablations = [], []
    for source, windows in made.items():
        for name in SCHEDULERS:
            make = partial(PUBLISHED_MODEL.scheduler, name)
            rows = [row for w in windows for row in simulate_window(w, LOAD, name, make, 1, PUBLISHED_MODEL, REGIONS)]
            cells.append(folder / f"{source}.{name}.parquet")
            write_table(pa.Table.from_pylist(rows, CELL_SCHEMA), CELL_SCHEMA, cells[-1])
        own = [path for path in cells if path.name.startswith(source)]
        for switch_id, arms in (("head_of_line_2560", ["no_cap"]), ("drain_cutoff", ["steps_5000"])):
            ablations.append(folder / f"{switch_id}.{source}.parquet")
            simulate_ablation(switch_id, arms, windows, loads, own, SCHEDULERS, REGIONS, {}, ablations[-1])
    return {"windows": made, "loads": loads, "cells": cells, "ablations": ablations, "folder": folder}


@pytest.fixture(scope="module")
def tables(study):
    return analyse(study["cells"], study["ablations"], SCHEDULERS, REGIONS)


def test_only_affected_schedulers_run_again(study):
    rows = read_table(study["ablations"][0], AUDIT_SCHEMA).to_pandas()
    assert set(rows["scheduler"]) == {"vllm_faithful"}
    assert len(rows) == WINDOWS * len(REGIONS)
    assert affected_schedulers(SWITCHES["prefill_free"], [*SCHEDULERS, "scorpio_style_slo_guard"]) == SCHEDULERS


def test_drain_runs_unfinished_cells_again_and_takes_the_others_as_they_are(study):
    rows = read_table(study["ablations"][1], AUDIT_SCHEMA).to_pandas().set_index("scheduler")
    assert rows.loc["vllm_faithful", "n_steps"].between(5_000, 5_100).all()
    own = pd.concat(read_table(path, CELL_SCHEMA).to_pandas() for path in study["cells"][: len(SCHEDULERS)])
    same = ["window_id", "region", "outcome_sha256", "n_steps"]
    fifo = own[own["scheduler"] == "fifo"][same].sort_values(same)
    assert rows.loc["fifo"][same].sort_values(same).to_numpy().tolist() == fifo.to_numpy().tolist()


def test_the_cap_makes_the_reversal_of_slai_and_vllm(tables):
    """Where long prompts block vllm_faithful, slai_faithful is ahead; without the cap it is not."""
    difference = tables["audit_difference"].set_index(["switch", "arm", "source", "region"]).sort_index()
    blocked = difference.loc[("", "published", "with_long")]
    assert (blocked["sign"] == 1).all()
    freed = difference.loc[("head_of_line_2560", "no_cap", "with_long")]
    assert (freed["difference"] <= 0).all()
    for arm in (("", "published"), ("head_of_line_2560", "no_cap")):
        short = difference.loc[(*arm, "short")]
        assert (short["difference"] <= 0).all()
    columns = ["difference", "low", "high"]
    unchanged = difference.loc[("drain_cutoff", "steps_5000")]
    assert unchanged[columns].to_numpy().tolist() == difference.loc[("", "published")][columns].to_numpy().tolist()


def test_status_of_reversals(tables):
    table = tables["audit_reversals"]
    run = table[table["switch"] == ""]
    assert set(run["status"]) == {"run"}
    pair = {("slai_faithful", "vllm_faithful")}
    assert pair <= set(run[["scheduler_a", "scheduler_b"]].itertuples(index=False, name=None))
    freed = table[table["switch"] == "head_of_line_2560"]
    of_pair = freed[(freed["scheduler_a"] == "slai_faithful") & (freed["scheduler_b"] == "vllm_faithful")]
    assert set(of_pair["status"]) == {"vanished"}
    drained = table[table["switch"] == "drain_cutoff"]
    assert set(drained["status"]) == {"kept"}
    assert len(drained) == len(run)


def test_schedulers_that_behave_alike_count_once(tables):
    ranked = tables["audit_rankings"]
    kept = ranked[ranked["switch"] == "equal_policies"]["scheduler"].unique()
    assert len(kept) < len(SCHEDULERS)
    assert len(kept) == len(set(kept))


def test_rankings_say_who_ran_again_and_moved(tables):
    ranked = tables["audit_rankings"]
    freed = ranked[(ranked["switch"] == "head_of_line_2560") & (ranked["source"] == "with_long")]
    assert set(freed[freed["ran_again"]]["scheduler"]) == {"vllm_faithful"}
    vllm = freed[freed["scheduler"] == "vllm_faithful"]
    assert (vllm["rank"] < vllm["rank_of_run"]).all()
    assert (vllm["completion_fraction"] > vllm["completion_fraction_of_run"]).all()


def test_figures_and_tables_are_made_from_the_written_analyses(study, tables, tmp_path):
    files = {name: tmp_path / f"{name}.parquet" for name in SCHEMAS}
    write_analyses(tables, files)
    for kind, items in (("figure", AUDIT_FIGURES), ("table", AUDIT_TABLES)):
        of_arms = {name: item for name, item in items.items() if item.reads.keys() <= SCHEMAS.keys()}
        assert len(of_arms) >= 3
        for name, item in of_arms.items():
            given = [f"{read}={files[read]}" for read in item.reads]
            out = tmp_path / (f"{name}.svg" if kind == "figure" else f"{name}.csv")
            rest = ["--title", "made traces", "--model", "published", "--out", str(out)]
            assert main([kind, name, "--tables", *given, *rest]) == 0
            assert out.stat().st_size
    arms = pd.read_csv(tmp_path / "arms.csv").set_index("defect")
    assert "made traces" in (tmp_path / "reversals_by_arm.svg").read_text()
    vanished = int((tables["audit_reversals"].query("switch == 'head_of_line_2560'")["status"] == "vanished").sum())
    assert f"{vanished} of " in arms.loc["head_of_line_2560", "statement"]
    assert arms.loc["head_of_line_2560", "vanished"] == vanished
    assert len(arms) == 4


def test_audit_refuses_the_arm_of_the_run_and_unknown_ones(study, tmp_path):
    arguments = [study["windows"]["short"], study["loads"], [], SCHEDULERS, REGIONS]
    out = tmp_path / "out.parquet"
    with pytest.raises(UserError, match="found seconds, which the run itself has"):
        simulate_ablation("laxity_units", ["seconds"], *arguments, {"laxity_units": "seconds"}, out)
    with pytest.raises(UserError, match="no arm 'minutes'"):
        simulate_ablation("laxity_units", ["minutes"], *arguments, {}, out)
    with pytest.raises(UserError, match="--cells must give the run's own"):
        simulate_ablation("drain_cutoff", ["steps_5000"], *arguments, {}, out)
    assert not out.exists()


def test_cells_of_another_run_are_told(study, tmp_path):
    rows = pq.read_table(study["ablations"][0]).to_pylist()
    other = tmp_path / "other.parquet"
    rows[0]["window_id"] = "elsewhere_w00"
    write_table(pa.Table.from_pylist(rows, AUDIT_SCHEMA), AUDIT_SCHEMA, other)
    with pytest.raises(UserError, match="elsewhere_w00 / KNEE of an arm is not one of the run's"):
        analyse(study["cells"], [other], SCHEDULERS, REGIONS)


def test_attainable_goodput_is_a_ceiling(study):
    cells = pd.concat([read_table(path, CELL_SCHEMA).to_pandas() for path in study["cells"]])
    windows = [w for of_source in study["windows"].values() for w in of_source]
    loads = {(w.source, w.window_id): LOAD for w in windows}
    conditions = diagnostics.Conditions(windows, loads, cells, pd.DataFrame(), regions=REGIONS)
    ceiling = diagnostics.diagnose("infeasible_deadlines", conditions)
    both = cells.merge(ceiling, on=["source", "window_id", "region"])
    assert (both["arrival_normalized_weighted_goodput"] <= both["attainable"]).all()
    equal = diagnostics.diagnose("equal_policies", conditions)
    assert (equal["n_distinct"] <= equal["n_schedulers"]).all()
    fifo = diagnostics.diagnose("zero_completion_label", conditions)
    assert fifo["without_completion"].tolist() == [0, 0]
    reasons = diagnostics.diagnose("activation_counter", conditions._replace(scheduler="vllm_faithful"))
    assert (reasons[["slot", "kv", "rule"]].sum(axis=1) == reasons["all"]).all()
    assert reasons.query("source == 'with_long'")["rule"].min() > 0
    modelled = diagnostics.diagnose("idle_telemetry", conditions)
    assert (modelled["prefill_decode_contention_fraction"] > 0).all()


def test_strata_by_position_and_autocorrelation():
    index = pd.DataFrame(
        {
            "source": "s",
            "window_id": [f"w{n}" for n in range(6)],
            "chronology_stratum": "EARLY",
            "start_row": [50, 10, 30, 20, 60, 40],
            "prompt_tokens_mean": [5, 1, 3, 2, 6, 4],
            "output_tokens_mean": [-1, -1, -1, 1, 1, 1],
            "arrival_rate_rps": 1.5,
        }
    )
    cells = pd.DataFrame({"source": "s", "window_id": index["window_id"], "arrival_normalized_weighted_goodput": 0.5})
    conditions = diagnostics.Conditions([mixed_window()], {}, cells, index)
    strata = diagnostics.diagnose("stage0_strata", conditions)
    assert strata["stratum_by_position"].tolist() == ["LATE", "EARLY", "MIDDLE", "EARLY", "LATE", "MIDDLE"]
    found = diagnostics.diagnose("window_independence", conditions).set_index("value")["lag_1_autocorrelation"]
    assert found["prompt_tokens_mean"] == pytest.approx(1)
    assert found["output_tokens_mean"] == pytest.approx(-1)
    assert np.isnan(found["anwg"])

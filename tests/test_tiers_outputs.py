"""Figures and tables of the tiers study from a small run of both variants, through the commands."""

from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from servestudy.cli import main
from servestudy.plotting.registry import TIER_FIGURES
from servestudy.tabulation.registry import CLAIMS, TIER_TABLES
from servestudy.tabulation.tiers_hypotheses import ANSWERS, HYPOTHESES
from servestudy.tabulation.tiers_reported import RULES
from servestudy.tiers.reported import reported_values
from servestudy.tiers.settings import Rules
from servestudy.tiers.study import Design

STUDY = ["infaas_vllm", "ours_one_tier", "ours"]
SMALL = ["--mixes", "uniform", "--tiers", "4"]
JOBS = {
    "published": [
        ["--systems", *STUDY, *SMALL, "--requests", "300", "400", "--variants", "published", "time_limit_s=inf",
         "batch_cap=true,decodes_hold_kv=true"],
        ["--systems", *STUDY, *SMALL, "--requests", "200", "--set", "streams=separate", "--seeds", "1", "2"],
        ["--systems", "ours", "round_robin_vllm", "--preset", "fixed", "--tiers", "1",
         "--variants", *RULES["decode_attention"], *RULES["prefill_attention"]],
        ["--systems", "ours", "--preset", "fixed", "--tiers", "3"],
    ],
    "serving": [
        ["--preset", "serving", "--systems", *STUDY, "llumnix24", *SMALL, "--requests", "200", "--seeds", "1", "2",
         "--loads", "0.7", "1.1", "burst", "--variants", "published", "queue_order=fifo"],
        ["--preset", "fixed_serving", "--systems", "ours", "--tiers", "1", "3"],
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    for model, jobs in JOBS.items():
        cells = [folder / f"{model}_{number}.parquet" for number in range(len(jobs))]
        for path, options in zip(cells, jobs, strict=True):
            assert main(["tiers", *options, "--out", str(path)]) == 0
        out = [f"--{name}={folder / model / name}.parquet" for name in ("metrics", "speedups", "gains")]
        assert main(["tiers-analyse", "--cells", *map(str, cells), *out]) == 0
    single = ["--preset", "serving", "--systems", *STUDY, "llumnix24", *SMALL, "--requests", "100", "--each-request"]
    assert main(["tiers", *single, "--out", str(folder / "serving/requests.parquet")]) == 0
    few = ["--requests", "40", "--kv-blocks", "64"]
    assert main(["tiers-timeline", *few, "--out", str(folder / "serving/timeline.parquet")]) == 0
    return folder


def tables_of(run: Path, item) -> list[str]:
    if CLAIMS in item.reads:
        return [f"{CLAIMS}={run / 'claims.csv'}"]
    parts = ((name, *name.split("_tier_")) for name in item.reads)
    return [f"{name}={run / model / analysis}.parquet" for name, model, analysis in parts]


def draw(name: str, run: Path, out: Path) -> str:
    options = ["--title", "made requests", "--model", "published and serving", "--out", str(out)]
    assert main(["figure", name, "--tables", *tables_of(run, TIER_FIGURES[name]), *options]) == 0
    return out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("speedup_by_k", ["uniform, 300", "uniform, load 1.1", "E2E mean, serving"]),
        ("gain_of_tiers", ["TTFT mean, ratio, published", "SLO attainment, difference, serving"]),
        ("ablation", ["K = 4, uniform, 300 requests", "decodes_hold_kv=true"]),
        ("ttft_against_tbt", ["TBT mean as published", "serving: uniform, 200 requests, burst"]),
        ("per_tier", ["What each of 4 tiers gets", "Llumnix (OSDI'24)", "longest wait (s), burst"]),
        ("censoring", ["requests completed", "no limit"]),
        ("tiers_by_k", ["First and last tier", "TBT P99 (s), load 1.1", "SLO attainment, burst", "last tier"]),
        ("load_dependence", ["E2E P99, over INFaaS + vLLM", "TTFT mean, over one tier", "K = 4"]),
        ("cost", ["gain in cost per latency, published", "busy GPU time (s), serving", "paid for all GPUs ($)"]),
        ("latency_cdfs", ["K = 4, uniform mix", "TTFT (s), burst", "Llumnix (OSDI'24)", "share of requests"]),
        ("timeline", ["ours: 40 requests", "replica 3", "prefill", "wait (downwards)", "preempt"]),
    ],
)
def test_figures_say_what_they_show(name, labels, run, tmp_path):
    text = draw(name, run, tmp_path / "figure.svg")
    assert not [label for label in ["made requests", *labels] if label not in text]


def test_the_same_tables_give_the_same_bytes(run, tmp_path):
    assert draw("censoring", run, tmp_path / "a.svg") == draw("censoring", run, tmp_path / "b.svg")


def test_no_figure_is_left_out():
    assert len(TIER_FIGURES) == 11, "give the new one its labels above"


@pytest.fixture(scope="module")
def tables(run, project) -> dict[str, pd.DataFrame]:
    found = {}
    claims = ["--claims", str(project / "claims/tiers.yaml"), "--run-dir", str(run), "--models", "published", "serving"]
    assert main(["claims", *claims, "--title", "made requests", "--out", str(run / "claims.csv")]) == 0
    for name, item in TIER_TABLES.items():
        out = run / f"{name}.csv"
        options = ["--title", "made requests", "--model", "both", "--out", str(out)]
        assert main(["table", name, "--tables", *tables_of(run, item), *options]) == 0
        found[name] = pd.read_csv(out)
    return found


def test_the_reported_table_has_a_verdict_for_every_value(tables):
    table = tables["reported"]
    assert len(table) == len(reported_values())
    ran = table[((table["tiers"] == 1) & table["system"].isin(["ours", "round_robin_vllm"])) | (table["tiers"] == 3)]
    assert set(ran["verdict"]) == {"reproduced", "not reproduced"}
    assert set(table.drop(ran.index)["verdict"]) == {"not run"}
    off = ran[ran["verdict"] == "not reproduced"]
    assert (off["difference"].astype(float).abs() > off["allowed"]).all()
    assert set(off["metric"]) == {"ttft_p99_s"}
    assert off["explanation"].str.startswith("prefill_attention: ").all()
    first = off.set_index("tiers").loc[1]
    low_s, high_s = (float(first[f"{rule}_low_s"]) for rule in ("prefill_attention", "decode_attention"))
    assert low_s < first["reported_s"] < high_s
    assert (ran["study_again_s"] != "undefined").any()
    served = table[(table["system"] == "ours") & table["tiers"].isin([1, 3])]
    assert (served["serving_s"] != "undefined").all()
    assert (table.drop(served.index)["serving_s"] == "undefined").all()


def test_claims_have_both_variants_beside_the_reported_values(tables):
    table = tables["claims_of_tiers"].set_index("claim")
    assert table.loc["tiers.e2e_p99_speedup", "reported"] == "min = 1.32; max = 3.13"
    for column in ("reproduced", "serving"):
        assert table.loc["tiers.e2e_p99_speedup", column].startswith("min = ")
    assert "K = 4 uniform" in table.loc["tiers.e2e_p99_speedup", "note"], "the interval over one tier"
    assert "saturation" in table.loc["tiers.load_dependence", "serving"]


def test_every_hypothesis_has_an_answer_with_its_numbers(tables):
    table = tables["hypotheses"].set_index("hypothesis")
    assert list(table.index) == list(HYPOTHESES) == [f"H{number}" for number in range(1, 23)]
    assert set(table["answer"]) <= set(ANSWERS.values())
    assert table.loc["H3", "answer"] == "not decided"  # that rule was not switched
    assert "not run" in table.loc["H3", "evidence"]
    assert table.loc["H5", "answer"] == "supported"
    assert "KV held and cap honoured" in table.loc["H1", "evidence"]


def test_ablations_stand_beside_the_unswitched_speed_up(tables):
    table = tables["ablations"]
    published = table[(table["variant_of_the_study"] == "published") & (table["metric"] == "e2e_p99")]
    assert set(published["switched"]) == {"none", "time_limit_s=inf", "batch_cap=true,decodes_hold_kv=true"}
    plain = published[published["switched"] == "none"]
    assert (plain["gain"] == plain["without_the_switch"]).all()
    serving = table[table["variant_of_the_study"] == "serving"]
    assert set(serving["switched"]) == {"none", "queue_order=fifo"}
    assert set(serving["seeds"]) == {2}
    assert serving["low"].notna().all()


def test_latencies_of_single_requests_are_those_of_the_cells(run):
    single = pd.read_parquet(run / "serving/requests.parquet")
    cells = pd.concat(pd.DataFrame(rows) for name in (*STUDY, "llumnix24") for rows in _cells(name))
    for row in cells[cells["tier"] == -1].itertuples():
        mine = single[single["system"] == row.system]
        assert len(mine) == row.of_tier == 100
        assert mine["ttft_s"].mean() == pytest.approx(row.ttft_mean_s)
        assert mine["e2e_s"].quantile(0.99) == pytest.approx(row.e2e_p99_s)


def _cells(system: str):
    design = Design(preset="serving", tiers=(4,), mixes=("uniform",), requests=(100,))
    return list(design.cells_of(system)[1])


def test_constants_name_every_rule_of_each_preset(tables):
    table = tables["constants"].set_index("constant")
    assert {of.name for of in fields(Rules)} <= set(table.index)
    assert table.loc["total_blocks", ["burst", "serving", "fixed"]].tolist() == ["128", "7424", "7424"]
    assert table.loc["headroom in blocks, K = 4", "burst"] == "25 11 4 2"
    assert set(table.loc["run here", ["burst", "serving", "fixed"]]) == {"True"}


def test_systems_and_gains_have_every_cell(tables):
    systems = tables["systems"]
    assert set(systems["system"]) == {*STUDY, "llumnix24", "round_robin_vllm"}
    assert set(systems[systems["variant_of_the_study"] == "serving"]["load"]) == {"0.7", "1.1", "burst"}
    gains = tables["gains"]
    assert set(gains["reference"]) == {"baseline", "one_tier", "k1"}
    assert (gains[gains["reference"] == "one_tier"]["system"] == "ours").all()


def test_a_figure_without_rows_is_told(run, tmp_path, capsys):
    item = TIER_FIGURES["ablation"]
    cells = tmp_path / "cells.parquet"
    assert main(["tiers", "--systems", *STUDY, *SMALL, "--requests", "50", "--out", str(cells)]) == 0
    out = [f"--{name}={tmp_path / name}.parquet" for name in ("metrics", "speedups", "gains")]
    assert main(["tiers-analyse", "--cells", str(cells), *out]) == 0
    given = [f"{name}={tmp_path / 'gains.parquet'}" for name in item.reads]
    svg = tmp_path / "out.svg"
    assert main(["figure", "ablation", "--tables", *given, "--title", "t", "--model", "m", "--out", str(svg)]) == 1
    assert "no rows of switched rules" in capsys.readouterr().err
    assert not svg.exists()

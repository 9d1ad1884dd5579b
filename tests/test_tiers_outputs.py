"""Figures and tables of the tiers study from a small run of both variants, through the commands."""

from pathlib import Path

import pandas as pd
import pytest

from servestudy.cli import main
from servestudy.plotting.registry import TIER_FIGURES
from servestudy.tabulation.registry import CLAIMS, TIER_TABLES
from servestudy.tabulation.tiers_hypotheses import ANSWERS, HYPOTHESES
from servestudy.tiers.reported import reported_values

STUDY = ["infaas_vllm", "ours_one_tier", "ours"]
SMALL = ["--mixes", "uniform", "--tiers", "4"]
JOBS = {
    "published": [
        ["--systems", *STUDY, *SMALL, "--requests", "300", "400", "--variants", "published", "time_limit_s=inf",
         "batch_cap=true,decodes_hold_kv=true"],
        ["--systems", *STUDY, *SMALL, "--requests", "200", "--set", "streams=separate", "--seeds", "1", "2"],
        ["--systems", "ours", "round_robin_vllm", "--preset", "fixed", "--tiers", "1"],
    ],
    "serving": [
        ["--preset", "serving", "--systems", *STUDY, "llumnix24", *SMALL, "--requests", "200", "--seeds", "1", "2",
         "--loads", "0.7", "1.1", "burst", "--variants", "published", "queue_order=fifo"],
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
    ],
)
def test_figures_say_what_they_show(name, labels, run, tmp_path):
    text = draw(name, run, tmp_path / "figure.svg")
    assert not [label for label in ["made requests", *labels] if label not in text]


def test_the_same_tables_give_the_same_bytes(run, tmp_path):
    assert draw("censoring", run, tmp_path / "a.svg") == draw("censoring", run, tmp_path / "b.svg")


def test_no_figure_is_left_out():
    assert len(TIER_FIGURES) == 6, "give the new one its labels above"


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
    ran = table[(table["tiers"] == 1) & table["system"].isin(["ours", "round_robin_vllm"])]
    assert set(ran["verdict"]) == {"reproduced", "not reproduced"}
    assert set(table.drop(ran.index)["verdict"]) == {"not run"}
    off = ran[ran["verdict"] == "not reproduced"]
    assert (off["difference"].astype(float).abs() > off["allowed"]).all()
    assert off["explanation"].str.startswith("not explained").all()
    assert set(off["metric"]) == {"ttft_p99_s"}


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

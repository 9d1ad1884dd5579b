# ruff: noqa: F811 (fixtures are imported)
"""Claims of whole runs: which traces they have, missing tables, two models, the published numbers."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from made_claims import (
    PAIRS,
    agreement_rows,
    make,
    run_folder,
    study,  # noqa: F401
)

from servestudy.claims import (
    COLUMNS,
    CONTRADICTED,
    NEEDS_TRACES,
    NOT_EVALUATED,
    NOT_REPRODUCED,
    ONLY_PUBLISHED_MODEL,
    REPRODUCED,
    Outcome,
    evaluate,
    evaluate_claims,
    on_the_studys_traces,
    tables_by_name,
    tables_of_run,
    write_claims,
)
from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.reversal_rules import STABLE, SUPPORTED


def test_which_traces_a_run_has(study, tmp_path):
    paper = study["traces"]["sources"]
    for folder, sources, windows, expected in (
        ("paper", paper, 40, True),
        ("few", paper, 2, False),
        ("more", [*paper, "mooncake_conversation"], 40, False),
        ("embedded", ["azure_like", "bailian_like", "burstgpt_like"], 40, False),
    ):
        files = tables_of_run(run_folder(tmp_path / folder, sources, windows), "published")
        assert on_the_studys_traces(files, study["traces"]) is expected, folder
    assert not on_the_studys_traces({}, study["traces"])


def test_no_claim_is_dropped_whatever_is_missing(project, study, tmp_path):
    out = tmp_path / "claims.csv"
    write_claims(project / "claims/portability.yaml", {"published": {}}, "nothing", out)
    table = pd.read_csv(out, keep_default_na=False)
    assert list(table.columns) == list(COLUMNS)
    assert list(table["claim"]) == list(study["claims"])
    assert set(table["verdict"]) == {NOT_EVALUATED, CONTRADICTED, NOT_REPRODUCED}
    missing = table.set_index("claim").loc["portability.tau_range"]
    assert missing["reproduced"] == NOT_EVALUATED
    assert missing["note"] == "this run has no table agreement"
    assert missing["evidence"] == "missing: agreement"
    assert (table["evidence"] != "").all()
    assert set(table["serving"]) == {"not run"}


def test_values_on_the_papers_windows_and_on_others(study, tmp_path):
    some = {name: study["claims"][f"portability.{name}"] for name in ("tau_range", "mean_tau")}
    some["mean_tau"] = some["mean_tau"] | {"reported": {"mean": 0.7}}
    part = study | {"claims": some}
    paper = tables_of_run(run_folder(tmp_path / "paper", study["traces"]["sources"], 40), "published")
    table = evaluate_claims(part, paper, None, "the paper's").set_index("claim")
    assert dict(table["verdict"]) == {"tau_range": NOT_REPRODUCED, "mean_tau": REPRODUCED}
    other = tables_of_run(run_folder(tmp_path / "other", study["traces"]["sources"], 4), "published")
    table = evaluate_claims(part, other, None, "few windows").set_index("claim")
    assert set(table["verdict"]) == {NEEDS_TRACES}
    assert set(table["direction_holds"]) == {"yes"}
    assert table.loc["mean_tau", "reproduced"] == "mean = 0.7"
    assert table.loc["mean_tau", "evidence"].endswith("statistics/published/agreement.parquet")


def test_another_model_decides_whether_a_claim_survives(study, tmp_path):
    claim = study["claims"]["portability.mean_tau"] | {"reported": {"mean": 0.7}}
    part = study | {"claims": {"mean": claim}}
    paper = tables_of_run(run_folder(tmp_path / "paper", study["traces"]["sources"], 40), "published")
    low = make(tmp_path / "serving", "agreement", agreement_rows(dict.fromkeys(PAIRS, 0.1)))
    table = evaluate_claims(part, paper, {"agreement": low}, "the paper's")
    assert table["verdict"].item() == ONLY_PUBLISHED_MODEL
    assert table["serving"].item() == "mean = 0.1"


def test_the_serving_columns_of_a_run_with_both_models(project, study, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    run = run_folder(tmp_path / "run", study["traces"]["sources"], 40)
    serving = make(run / "statistics/serving", "agreement", agreement_rows(dict.fromkeys(PAIRS, 0.1)))
    assert tables_of_run(run, "serving")["agreement"] == serving
    mean, best = "portability.mean_tau", "portability.no_best_everywhere"
    claims = {mean: study["claims"][mean] | {"reported": {"mean": 0.7}}, best: study["claims"][best]}
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump(study | {"claims": claims}), encoding="utf-8")
    out = tmp_path / "claims.csv"
    told = ["--claims", f"{tmp_path}/claims.yaml", "--run-dir", str(run), "--title", "made", "--out", str(out)]
    assert main(["claims", *told, "--models", "published", "serving"]) == 0
    table = pd.read_csv(out, keep_default_na=False).set_index("claim")
    row = table.loc[mean]
    assert list(row[["reproduced", "serving"]]) == ["mean = 0.7", "mean = 0.1"]
    assert list(row[["direction_holds", "serving_direction_holds"]]) == ["yes", "no"]
    assert row["verdict"] == ONLY_PUBLISHED_MODEL
    row = table.loc[best]
    assert list(row[["serving", "serving_direction_holds"]]) == [NOT_EVALUATED, NOT_EVALUATED]
    assert row["note"].endswith("serving model: this run has no table ranking")

    assert main(["claims", *told]) == 0
    table = pd.read_csv(out, keep_default_na=False)
    assert set(table["serving"]) == set(table["serving_direction_holds"]) == {"not run"}


def test_command_line(project, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(project)
    run = run_folder(tmp_path / "run", ["azure_like", "bailian_like", "burstgpt_like"], 40)
    by_run, by_table = tmp_path / "run.csv", tmp_path / "table.csv"
    assert main(["claims", "--run-dir", str(run), "--title", "made", "--out", str(by_run)]) == 0
    names = ("ranking", "agreement")
    tables = [f"{name}={run}/statistics/published/{name}.parquet" for name in names]
    assert main(["claims", "--tables", *tables, "--title", "made", "--out", str(by_table)]) == 0
    assert by_run.read_bytes() == by_table.read_bytes()

    assert main(["claims", "--tables", "agreemint=x", "--title", "made", "--out", str(tmp_path / "no.csv")]) == 1
    assert "did you mean agreement?" in capsys.readouterr().err
    swapped = f"agreement={run}/statistics/published/ranking.parquet"
    assert main(["claims", "--tables", swapped, "--title", "made", "--out", str(tmp_path / "no.csv")]) == 1
    assert "its columns are" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()
    with pytest.raises(UserError, match="unknown table"):
        tables_by_name([("x", Path("y"))])


# The published numbers, as if a run had given them


def test_a_run_with_the_published_numbers_reproduces_what_they_say(shared, study, tmp_path):
    reported = yaml.safe_load((shared / "reported/portability.yaml").read_text(encoding="utf-8"))
    pairs = [
        {
            "metric": PRIMARY_METRIC,
            "region": row["region"],
            "source_x": row["x"],
            "source_y": row["y"],
            "tau_b": row["tau"],
        }
        for row in reported["primary_tau"]["rows"]
    ]
    intervals = [
        pair | dict(zip(("tau_low", "tau_high"), row["tau_ci"], strict=True))
        for pair, row in zip(pairs, reported["primary_tau"]["rows"], strict=True)
    ]
    supported = [
        {"rule": "published", "metric": PRIMARY_METRIC, "reversal_class": SUPPORTED, "supported_after_fdr": True}
        | {"region": row["region"], "source_x": row["x"], "source_y": row["y"], "effect": row["effect"]}
        | {"scheduler_a": row["a"], "scheduler_b": row["b"]}
        for row in reported["reversals"]["supported"]
    ]
    stable = supported[0] | {"region": "LOW", "reversal_class": STABLE, "supported_after_fdr": False}
    run = run_folder(tmp_path / "run", study["traces"]["sources"], 40)
    tables = run / "statistics/published"
    make(tables, "agreement", pairs)
    make(tables, "agreement_intervals", intervals)
    make(tables, "reversals", [stable, *supported])
    files = tables_of_run(run, "published")
    table = evaluate_claims(study, files, None, "published numbers").set_index("claim")
    names = [
        *("tau_range", "azure_bailian_tau", "burstgpt_tau", "tau_gap", "mean_tau", "tau_flat_over_load"),
        *("four_region_tau", "reversals_burstgpt_side", "reversals_load_concentrated", "reversals_survive_fdr"),
        *("margin_ci_agree", "largest_reversal"),
    ]
    for name in names:
        row = table.loc[f"portability.{name}"]
        assert (row["verdict"], row["direction_holds"]) == (REPRODUCED, "yes"), (name, row["reproduced"])
    for name in ("reversals_one_pair", "control_case"):
        row = table.loc[f"portability.{name}"]
        assert (row["verdict"], row["direction_holds"]) == (CONTRADICTED, "no"), (name, row["reproduced"])
    assert table.loc["portability.reversals_one_pair", "note"].endswith("this run agrees with the study's data")


def test_made_requests_of_the_published_model_say_nothing_about_the_serving_model(study):
    claim = study["claims"]["portability.kv_cap_ignored"]
    assert evaluate(claim, {}, "serving") == Outcome(None, False, "the made requests run in the published model only")
    tables = [evaluate_claims(study | {"claims": {"kv": claim}}, {}, serving, "made") for serving in ({}, None)]
    assert [table["serving"].item() for table in tables] == [NOT_EVALUATED, "not run"]
    assert tables[0]["verdict"].item() == tables[1]["verdict"].item()

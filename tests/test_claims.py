"""Claims: the file, the tests that it names, verdicts on made tables, and the published numbers."""

import copy
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from servestudy.claim_tests.evidence import FIFO_CELLS, Evidence, Finding, UndefinedError, stand_in
from servestudy.claim_tests.registry import TESTS
from servestudy.claims import (
    COLUMNS,
    CONTRADICTED,
    NEEDS_TRACES,
    NOT_EVALUATED,
    NOT_REPRODUCED,
    ONLY_PUBLISHED_MODEL,
    REPRODUCED,
    VERDICTS,
    Outcome,
    contradictions,
    differences,
    evaluate,
    evaluate_claims,
    judge,
    load_claims,
    on_the_studys_traces,
    tables_by_name,
    tables_of_run,
    write_claims,
)
from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES
from servestudy.statistics.reversal_rules import STABLE, SUPPORTED
from servestudy.tables import write_frame
from servestudy.workload import REGIONS

PAIRS = [("azure_like", "bailian_like"), ("azure_like", "burstgpt_like"), ("bailian_like", "burstgpt_like")]
BLANKS = {pa.string(): "", pa.bool_(): False, pa.int32(): 0, pa.int64(): 0, pa.float64(): np.nan}


def make(folder: Path, name: str, rows: list[dict]) -> list[Path]:
    """A table of an analysis, with columns that a test does not care about left blank."""
    analysis = (ANALYSES | VARIANT_ANALYSES | WORKLOAD_ANALYSES).get(name)
    schema = import_module(analysis.module).SCHEMA if analysis else CELL_SCHEMA
    unknown = {column for row in rows for column in row}.difference(schema.names)
    assert not unknown, unknown
    frame = pd.DataFrame(rows, columns=schema.names)
    for field in schema:
        if frame[field.name].isna().all():
            frame[field.name] = pd.Series([BLANKS[field.type]] * len(frame), dtype=field.type.to_pandas_dtype())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    write_frame(frame, schema, path)
    return [path]


def agreement_rows(taus: dict[tuple[str, str], float]) -> list[dict]:
    """The same taus at each region."""
    return [
        {"metric": PRIMARY_METRIC, "region": region, "source_x": x, "source_y": y, "tau_b": tau}
        for region in REGIONS
        for (x, y), tau in taus.items()
    ]


def reversal_rows(classes: list[tuple[str, str, str, str]]) -> list[dict]:
    """Of (class, region, scheduler a, scheduler b), between azure_like and burstgpt_like."""
    return [
        {
            "rule": "published",
            "metric": PRIMARY_METRIC,
            "region": region,
            "source_x": "azure_like",
            "source_y": "burstgpt_like",
            "scheduler_a": a,
            "scheduler_b": b,
            "reversal_class": label,
            "supported_after_fdr": label == SUPPORTED,
        }
        for label, region, a, b in classes
    ]


def run_test(name: str, files: dict[str, list[Path]], **parameters) -> Finding:
    return TESTS[name](Evidence(files), **parameters)


@pytest.fixture(scope="module")
def study(project) -> dict:
    return load_claims(project / "claims/portability.yaml")


def a_claim(**changes) -> dict:
    claim = {
        "statement": "The mean is 0.5.",
        "source": "a paper",
        "reported": {"mean": 0.5},
        "test": {"function": "mean_tau", "parameters": {"at_least": 0.4}},
        "tolerance": 0.01,
        "direction": "the mean is at least 0.4",
        "evidence": ["agreement"],
        "traces": "paper",
    }
    return claim | changes


# The file


def test_the_file_is_valid_and_every_claim_has_a_registered_test(study):
    assert len(study["claims"]) >= 50
    assert {claim["test"]["function"] for claim in study["claims"].values()} <= TESTS.keys()


def test_no_verdict_is_typed_in_the_file(project, study):
    text = (project / "claims/portability.yaml").read_text(encoding="utf-8")
    words = {word for claim in study["claims"].values() for word in claim}
    assert not words & {"verdict", "status", "reproduced", "serving"}
    values = [
        str(value) for claim in study["claims"].values() for value in (*claim.values(), *claim["reported"].values())
    ]
    assert not set(values) & set(VERDICTS)
    for verdict in VERDICTS:
        assert f": {verdict}" not in text


def test_every_test_function_is_used_and_takes_its_parameters(study):
    used = {claim["test"]["function"] for claim in study["claims"].values()}
    assert used == TESTS.keys()
    for claim in study["claims"].values():
        function = TESTS[claim["test"]["function"]]
        known = function.__code__.co_varnames[1 : function.__code__.co_argcount]
        assert set(claim["test"].get("parameters", {})) <= set(known), claim


def test_all_reported_claims_and_conflicts_are_covered_with_their_numbers(shared, study):
    reported = yaml.safe_load((shared / "reported/portability.yaml").read_text(encoding="utf-8"))
    assert set(reported["claims"]) <= set(study["claims"])
    conflicts = {claim["conflict"] for claim in study["claims"].values() if "conflict" in claim}
    assert set(reported["conflicts"]) == conflicts
    for name, entry in reported["claims"].items():
        assert entry["statement"] != study["claims"][name]["statement"], f"{name}: in our own words"
    numbers = {name: study["claims"][f"portability.{name}"]["reported"] for name in ("tau_range", "mean_tau")}
    assert numbers["tau_range"] == reported["claims"]["portability.tau_range"]["reported"]
    assert numbers["mean_tau"]["mean"] == reported["claims"]["portability.mean_tau"]["reported"]
    others = reported["reversal_class_counts"]
    ours = study["claims"]["portability.secondary_metric_reversals"]["reported"]
    assert ours == {name: " ".join(map(str, others[name])) for name in ours}


def test_problems_of_a_file_are_listed_together(project, study, tmp_path):
    broken = copy.deepcopy(study)
    broken["claims"]["portability.mean_tau"]["test"]["function"] = "mean_tua"
    broken["claims"]["portability.tau_gap"]["evidence"] = ["agreemint"]
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(broken), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_claims(path)
    assert 'unknown test "mean_tua"; did you mean mean_tau?' in str(error.value)
    assert 'unknown table "agreemint"; did you mean agreement?' in str(error.value)

    del broken["claims"]["portability.mean_tau"]["direction"]
    broken["claims"]["portability.tau_gap"]["verdict"] = "reproduced"
    path.write_text(yaml.safe_dump(broken), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_claims(path)
    assert "claims.portability.mean_tau.direction: missing" in str(error.value)
    assert 'unknown key "verdict"' in str(error.value)


# Verdicts

HOLDS, FAILS = Outcome(Finding({"mean": 0.505}, True), True), Outcome(Finding({"mean": 0.3}, False), True)
UNDEFINED, NOTHING = Outcome(None, True, "no value"), Outcome(None, False, "no table")


@pytest.mark.parametrize(
    ("published", "serving", "studys_traces", "expected"),
    [
        (HOLDS, None, True, REPRODUCED),
        (HOLDS, HOLDS, True, REPRODUCED),
        (HOLDS, FAILS, True, ONLY_PUBLISHED_MODEL),
        (HOLDS, UNDEFINED, True, REPRODUCED),
        (FAILS, None, True, NOT_REPRODUCED),
        (FAILS, HOLDS, True, NOT_REPRODUCED),
        (UNDEFINED, None, True, NOT_REPRODUCED),
        (NOTHING, None, True, NOT_EVALUATED),
        (NOTHING, None, False, NOT_EVALUATED),
        (HOLDS, None, False, NEEDS_TRACES),
        (FAILS, FAILS, False, NEEDS_TRACES),
        (UNDEFINED, None, False, NEEDS_TRACES),
    ],
)
def test_verdicts(published, serving, studys_traces, expected):
    assert judge(a_claim(), published, serving, studys_traces) == expected


def test_a_claim_of_no_traces_is_judged_on_any_and_one_of_others_on_none():
    assert judge(a_claim(traces="none"), HOLDS, None, studys_traces=False) == REPRODUCED
    assert judge(a_claim(traces="none"), FAILS, None, studys_traces=False) == NOT_REPRODUCED
    assert judge(a_claim(traces="other"), HOLDS, None, studys_traces=True) == NEEDS_TRACES


def test_the_studys_own_data_contradict_a_claim_only_past_the_tolerance():
    data = {"values": {"mean": 0.52, "other": 1}, "source": "a file"}
    claim = a_claim(published_data=data)
    assert contradictions(claim) == ["mean"]
    for outcome in (HOLDS, FAILS, UNDEFINED, NOTHING):
        assert judge(claim, outcome, None, studys_traces=True) == CONTRADICTED
    assert contradictions(claim | {"tolerance": 0.03}) == []
    assert judge(claim | {"tolerance": 0.03}, HOLDS, None, studys_traces=True) == REPRODUCED
    assert contradictions(a_claim(published_data={"values": {"other": 1}, "source": "a file"})) == []


def test_values_are_equal_within_the_tolerance_and_texts_exactly():
    assert differences({"a": 1.0}, {"a": 1.25}, 0.25) == []
    assert differences({"a": 1.0}, {"a": 1.3}, 0.25) == ["a"]
    assert differences({"a": 1.0}, {"a": np.nan}, 0.25) == ["a"]
    assert differences({"a": 1.0}, {}, 0.25) == ["a"]
    assert differences({"a": 30}, {"a": "never"}, 0.25) == ["a"]
    assert differences({"a": "0 1"}, {"a": "0 1"}, 0) == []


def test_the_published_contradictions_follow_from_the_numbers_in_the_file(study):
    found = {name.partition(".")[2] for name, claim in study["claims"].items() if contradictions(claim)}
    assert {"reversals_one_pair", "robustness_leave_one_source_out", "temporal_burstgpt_tercile", "friedman"} <= found
    assert "tau_range" not in found
    swapped = study["claims"]["portability.robustness_leave_one_source_out"]
    assert contradictions(swapped) == ["azure", "bailian"]
    mended = swapped | {"reported": swapped["published_data"]["values"]}
    assert contradictions(mended) == []


# Tests on made tables


def test_taus_that_hold_and_do_not(tmp_path):
    files = {"agreement": make(tmp_path, "agreement", agreement_rows(dict(zip(PAIRS, (0.9, 0.6, 0.5), strict=True))))}
    found = run_test("tau_range", files)
    assert found == Finding({"min": 0.5, "max": 0.9, "n_conditions": 18, "n_positive": 18}, True)
    assert run_test("tau_of_pair", files, roles=["azure", "bailian"], at_least=0.8).holds
    assert run_test("tau_with_source", files, role="burstgpt").values == {"min": 0.5, "max": 0.6}
    gap = run_test("tau_gap", files, role="burstgpt")
    assert gap.holds
    assert gap.values == pytest.approx({"min": 0.3, "max": 0.4})
    assert not run_test("tau_with_source", files, role="azure").holds
    assert run_test("tau_by_region", files, spread_below=0.1).holds, "constant means have no trend"

    files = {"agreement": make(tmp_path, "agreement", agreement_rows(dict(zip(PAIRS, (0.9, -0.1, 0.5), strict=True))))}
    assert run_test("tau_range", files).holds is False
    assert run_test("tau_range", files).values["n_positive"] == 12


def test_a_trend_over_the_regions_is_seen(tmp_path):
    rows = agreement_rows({PAIRS[0]: 0.5})
    for number, row in enumerate(rows):
        row["tau_b"] += 0.01 * number
    files = {"agreement": make(tmp_path, "agreement", rows)}
    assert run_test("tau_by_region", files, spread_below=0.1).holds is False
    rows[0]["tau_b"] = 0.53
    files = {"agreement": make(tmp_path, "agreement", rows)}
    assert run_test("tau_by_region", files, spread_below=0.1).holds is True
    assert run_test("tau_by_region", files, spread_below=0.01).holds is False


def test_undefined_taus_are_left_out_and_counted(tmp_path):
    rows = agreement_rows(dict(zip(PAIRS, (0.9, np.nan, 0.5), strict=True)))
    files = {"agreement": make(tmp_path, "agreement", rows)}
    found = run_test("tau_range", files)
    assert found.holds
    assert found.note == "6 of 18 taus undefined"
    files = {"agreement": make(tmp_path, "agreement", agreement_rows(dict.fromkeys(PAIRS, np.nan)))}
    with pytest.raises(UndefinedError, match="no value is defined"):
        run_test("mean_tau", files, at_least=0.5)


def test_a_source_that_nothing_stands_for_is_undefined():
    assert stand_in("azure", ["azure_like", "burstgpt"]) == "azure_like"
    with pytest.raises(UndefinedError, match="no source stands for burstgpt"):
        stand_in("burstgpt", ["azure_2023_conv", "mooncake_conversation"])
    with pytest.raises(UndefinedError, match="2 sources stand for azure"):
        stand_in("azure", ["azure_2023_conv", "azure_2023_code"])


def test_reversals_of_one_pair_and_of_several(tmp_path):
    one = [(SUPPORTED, "KNEE", "a", "b"), (SUPPORTED, "OVERLOAD", "a", "b"), (STABLE, "LOW", "a", "c")]
    files = {"reversals": make(tmp_path, "reversals", reversal_rows(one))}
    assert run_test("reversals_of_one_pair", files, pair="a|b").values == {"of_the_pair": 2, "of_other_pairs": 0}
    assert run_test("reversals_of_one_pair", files, pair="a|b").holds
    assert run_test("reversals_with_source", files, role="burstgpt").holds
    assert run_test("reversals_survive_fdr", files).values == {"survive": 2, "of": 2}
    by_region = run_test("reversals_by_region", files, without="LOW", high=["OVERLOAD"])
    assert by_region.values == {"KNEE": 1, "OVERLOAD": 1, "LOW": 0}
    assert by_region.holds

    several = [*one, (SUPPORTED, "LOW", "b", "c")]
    files = {"reversals": make(tmp_path, "reversals", reversal_rows(several))}
    found = run_test("reversals_of_one_pair", files, pair="a|b")
    assert found.values == {"of_the_pair": 2, "of_other_pairs": 1}
    assert found.holds is False
    assert found.note == "2 pairs: a|b 2, b|c 1"
    assert run_test("reversals_by_region", files, without="LOW", high=["OVERLOAD"]).holds is False


def test_without_a_supported_reversal_claims_about_them_are_undefined(tmp_path):
    files = {"reversals": make(tmp_path, "reversals", reversal_rows([(STABLE, "KNEE", "a", "b")]))}
    for name, parameters in (
        ("reversals_of_one_pair", {"pair": "a|b"}),
        ("reversals_with_source", {"role": "burstgpt"}),
        ("reversals_survive_fdr", {}),
    ):
        with pytest.raises(UndefinedError, match="no supported reversal"):
            run_test(name, files, **parameters)
    counts = run_test("reversal_class_counts", files, supported_below=0.1)
    assert counts.holds is False
    assert counts.values["supported"] == 0


def test_first_n_that_is_never_reached(tmp_path):
    rows = [
        {
            "source": source,
            "metric": PRIMARY_METRIC,
            "rule": "published",
            "criterion": "top1",
            "n_windows": n,
            "is_first_n": n == first,
        }
        for source, first in (("azure_like", 5), ("bailian_like", 10), ("burstgpt_like", None))
        for n in (5, 10)
    ]
    files = {"sample_complexity": make(tmp_path, "sample_complexity", rows)}
    found = run_test("first_n", files, criterion="top1", largest="burstgpt")
    assert found == Finding({"azure": 5, "bailian": 10, "burstgpt": "never"}, True)
    assert run_test("first_n", files, criterion="top1", above=5).holds is False


def test_best_everywhere_counts_equals_and_no_style_approximation(tmp_path):
    def rows(means):
        return [
            {"source": source, "region": "KNEE", "metric": PRIMARY_METRIC, "scheduler": name, "mean": mean}
            for source, by_name in means.items()
            for name, mean in by_name.items()
        ]

    style = {"scorpio_style_slo_guard": 2.0}
    two = {"azure_like": {"fifo": 1.0, "edf": 1.0} | style, "burstgpt_like": {"fifo": 0.5, "edf": 0.6} | style}
    found = run_test("best_everywhere", {"ranking": make(tmp_path, "ranking", rows(two))})
    assert found.values == {"best_everywhere": 1}
    assert found.holds is False
    two["azure_like"]["edf"] = 0.9
    assert run_test("best_everywhere", {"ranking": make(tmp_path, "ranking", rows(two))}).holds


def test_zero_completions_and_zero_violations_are_told_apart(tmp_path):
    rows = [
        {"source": source, "region": "KNEE", "completion_fraction": share, "slo_violation_rate": rate}
        for source, share, rate in (
            ("azure_like", 1.0, 0.0),
            ("bailian_like", 0.0, np.nan),
            ("burstgpt_like", 1.0, 0.2),
        )
    ]
    found = run_test("fifo_zero_completions", {FIFO_CELLS: make(tmp_path, "cells", rows)})
    assert found.values == {"total": 1, "azure": 0, "bailian": 1, "burstgpt": 0}
    assert found.note.startswith("records without a late request: 1 of 3")


def test_constructed_requests_show_what_schedulers_heed(study):
    for name in ("kv_cap_ignored", "slo_deadline_users"):
        outcome = evaluate(study["claims"][f"portability.{name}"], {})
        assert outcome.finding.holds is False
    assert run_test("reads_deadline", {}, scheduler="fifo").values == {"reads_deadline": 0}


# Whole tables of claims


def run_folder(folder: Path, sources: list[str], windows: int) -> Path:
    """A run with the tables `ranking` and `agreement` alone."""
    ranking = [
        {"source": s, "region": "KNEE", "metric": PRIMARY_METRIC, "scheduler": "fifo", "windows_defined": windows}
        for s in sources
    ]
    pairs = [(x, y) for number, x in enumerate(sources) for y in sources[number + 1 :]]
    make(folder / "statistics/published", "ranking", ranking)
    make(folder / "statistics/published", "agreement", agreement_rows(dict.fromkeys(pairs, 0.7)))
    return folder


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

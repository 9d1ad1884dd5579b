"""The values of the paper: numbers from the tables, words that follow them, and what happens where a run lacks some."""

import pytest
from made_paper import changed, made_tables, values_of

from servestudy.cli import main
from servestudy.paper.claims import parsed
from servestudy.paper.values import READS
from servestudy.paper.wording import interval, listed, moves, number, percent, signed, significant, span


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch, project):
    monkeypatch.chdir(project)


@pytest.fixture(scope="module")
def tables():
    return made_tables()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (number(1234567, 0), "1,234,567"),
        (number(-0.2425), "\N{MINUS SIGN}0.24"),
        (number(-0.001), "0.00"),
        (signed(0.5), "+0.50"),
        (signed(-0.5), "\N{MINUS SIGN}0.50"),
        (interval(-1, 2), "[\N{MINUS SIGN}1.00, 2.00]"),
        (percent(0.005, 1), "0.5 %"),
        (significant(0.7329397321), "0.733"),
        (significant(1.2815), "1.28"),
        (significant(8.30), "8.3"),
        (significant(54450), "54,450"),
        (significant(-0.0235), "\N{MINUS SIGN}0.024"),
        (significant(float("nan")), "undefined"),
        (listed([]), "none"),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (span(["1", "2"]), "1 to 2"),
        (span(["1", "1"]), "1"),
        (moves(0.601, 0.604), "stays"),
        (moves(0.60, 0.56), "falls"),
        (moves(-0.24, 0.20), "rises"),
    ],
)
def test_wording(made, text):
    assert made == text


def test_values_of_a_claim_are_read_from_its_text():
    assert parsed("mean = 0.7329; n = 990") == {"mean": "0.733", "n": "990"}
    assert parsed("mean_latency = 1 2 3; of = 54450") == {"mean_latency": "1 2 3", "of": "54,450"}
    assert parsed("undefined") == {}
    assert parsed("not run") == {}


def test_numbers_come_from_the_tables_and_name_them(tmp_path, tables):
    found = values_of(tmp_path, tables)
    expected = {
        "portability.mean_tau.reported.mean": ("0.733", "portability/claims"),
        "claims.portability.n": ("2", "portability/claims"),
        "claims.tiers.not reproduced": ("2", "tiers/claims_of_tiers"),
        "claims.portability.directions.published": ("2", "portability/claims"),
        "panel.cells": ("9,360", "portability/metrics"),
        "tau.highest_region": ("HIGH PRESSURE", "portability/tau_by_region"),
        "reversals.n": ("10", "portability/supported_reversals"),
        "reversals.of_the_pair": ("8", "portability/supported_reversals"),
        "firsts.shared": ("2", "portability/rankings"),
        "models.mean_tau.moves": ("falls", "audit/models"),
        "models.positive.moves": ("stays", "audit/models"),
        "models.min_tau.serving": ("undefined", "audit/models"),
        "models.min_tau.moves": ("goes", "audit/models"),
        "arms.cap.gone": ("6 to 7", "audit/arms"),
        "arms.load.anwg": ("0.85", "audit/arm_rankings"),
        "tiers.both.e2e_p99": ("0.98", "tiers/ablations"),
        "tiers.paired.published.all": ("0.98 [0.90, 1.07] for K = 4", "tiers/gains"),
        "tiers.rows.round_robin_vllm": ("2 of 2", "tiers/reported"),
        "tiers.rows.missing": ("ours, ttft p99 (1)", "tiers/reported"),
        "engine.date": ("on 2026-11-30", "spotcheck/windows"),
        "engine.bracketed": ("1", "spotcheck/windows"),
        "engine.winners": ("none", "spotcheck/agreement"),
        "set.cap": ("2,560", "definition"),
    }
    assert {key: tuple(found["values"][key][name] for name in ("text", "source")) for key in expected} == expected
    assert found["run"] == {"name": "made", "title": "made traces (synthetic)", "models": ["published", "serving"]}
    assert {value["source"] for value in found["values"].values()} <= {*READS, "definition"}


def test_the_study_is_no_winner_on_our_engine(tmp_path, tables):
    assert not values_of(tmp_path, tables)["facts"]["engine.decided"]
    ours = {"simulator": "published", "source": "azure_like"}
    decided = changed(tables, "spotcheck/agreement", ours, engine_winner="slai")
    found = values_of(tmp_path, decided)
    assert found["values"]["engine.winners"]["text"] == "slai on azure_like"
    assert found["facts"]["engine.decided"]


@pytest.mark.parametrize(
    ("fact", "item", "which", "values"),
    [
        ("arms.cap.most", "audit/arms", {"arm": "no_cap"}, {"vanished": 5}),
        ("arms.silent_move", "audit/arms", {"defect": "drain_cutoff"}, {"places_moved": 0}),
        ("arms.run.pair_reversed", "audit/arm_slai_less_vllm", {"switch": "none: the run itself"}, {"sign": 1}),
        ("arms.load.tau_undefined", "audit/arms", {"arm": "gaps_only"}, {"tau_b_undefined": 0}),
        (
            "models.disjoint",
            "audit/models",
            {"quantity": "supported reversals of edf and slai_faithful"},
            {"published": 1},
        ),
        (
            "models.between_low",
            "audit/models",
            {"quantity": "tau-b between the rankings of the two models, azure_like"},
            {"published": 0.6},
        ),
        ("models.serving_reverses", "audit/models", {"quantity": "supported reversals"}, {"serving": 0}),
        ("models.metrics_disagree", "audit/models", {"quantity": "median tau-b between two metrics"}, {"serving": 0.9}),
        ("tiers.both.gains", "tiers/ablations", {"switched": "none"}, None),
        ("tiers.credited_small", "tiers/ablations", {"switched": "migration=off"}, {"gain": 1.2}),
        ("tiers.paired.serving.above", "tiers/gains", {"variant_of_the_study": "serving", "low": 1.02}, {"low": 0.99}),
        ("tiers.serving.ours.burst_below", "tiers/gains", {"system": "ours", "low": 0.39}, {"high": 1.2}),
        ("tiers.order", "tiers/hypotheses", {"hypothesis": "H10"}, {"answer": "not supported"}),
        ("firsts.shared", "portability/rankings", {"scheduler": "vllm_faithful"}, {"rank": 2}),
    ],
)
def test_facts_turn_with_the_numbers(tmp_path, tables, fact, item, which, values):
    if values is None:
        both = {"switched": "batch_cap=true,decodes_hold_kv=true"}
        assert not values_of(tmp_path, tables)["facts"][fact]
        assert values_of(tmp_path, changed(tables, item, both, gain=1.5))["facts"][fact]
    else:
        assert values_of(tmp_path, tables)["facts"][fact]
        assert not values_of(tmp_path, changed(tables, item, which, **values))["facts"][fact]


def test_a_run_of_one_model_has_no_values_of_both(tmp_path, tables):
    fewer = {item: rows for item, rows in tables.items() if item != "audit/models"}
    found = values_of(tmp_path, fewer, models=("published",))
    assert found["facts"]["both_models"] is False
    assert not [key for key in found["values"] if key.startswith("models.")]


def test_a_table_without_rows_gives_none(tmp_path, tables):
    empty = dict.fromkeys(tables["portability/supported_reversals"][0], "none")
    found = values_of(tmp_path, {**tables, "portability/supported_reversals": [empty]})
    assert found["values"]["reversals.n"]["text"] == "none"
    assert found["facts"]["reversals.any"] is False


def test_a_record_without_a_date_is_said_to_have_none(tmp_path, tables):
    found = values_of(tmp_path, tables, date=None)
    assert found["values"]["engine.date"]["text"] == "on a day that its record does not name"


@pytest.mark.parametrize(
    ("item", "file", "complaint"),
    [
        ("audit/none", "x.csv", "reads no audit/none"),
        ("audit/arms", "gone.csv", "gone.csv: not found"),
        ("audit/arms", "empty.csv", "empty.csv: holds no row"),
        ("audit/arms", None, "lacks audit/arms, which a run of published, serving has"),
    ],
)
def test_an_unknown_or_missing_table_is_named(tmp_path, tables, capsys, item, file, complaint):
    values_of(tmp_path, tables)
    (tmp_path / "empty.csv").touch()
    paths = {name: tmp_path / f"{name}.csv" for name in tables}
    paths.update({item: tmp_path / file} if file else {})
    given = [f"{name}={path}" for name, path in paths.items() if file or name != item]
    known = ["--title", "t", "--models", "published", "serving", "--run", "r", "--serving", "config/serving.yaml"]
    files = ["--provenance", str(tmp_path / "provenance.json"), "--out", str(tmp_path / "other.json")]
    assert main(["paper-values", "--tables", *given, *known, *files]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "other.json").exists()

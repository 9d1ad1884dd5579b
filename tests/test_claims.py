# ruff: noqa: F811 (fixtures are imported)
"""Claims: the file and the verdicts."""

import copy

import numpy as np
import pytest
import yaml
from made_claims import (
    a_claim,
    study,  # noqa: F401
)

from servestudy.claim_tests.evidence import Finding
from servestudy.claim_tests.registry import TESTS
from servestudy.claims import (
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
    judge,
    load_claims,
)
from servestudy.errors import UserError

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


def test_every_test_function_is_used_and_takes_its_parameters(project):
    claims = [claim for path in project.glob("claims/*.yaml") for claim in load_claims(path)["claims"].values()]
    assert {claim["test"]["function"] for claim in claims} == TESTS.keys()
    for claim in claims:
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

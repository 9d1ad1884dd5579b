"""Deliberately wrong schedulers each get the right diagnosis, with cell, step and request."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wrong_schedulers

from servestudy.audit.switches import rules_of
from servestudy.engine.replica_config import replica_limits
from servestudy.evaluate.checked import Checked, malformed
from servestudy.evaluate.findings import KINDS
from servestudy.evaluate.running import WindowJob, run_again, run_job
from servestudy.published_model import PublishedModel
from servestudy.schedulers.protocol import Action
from servestudy.schedulers.registry import schedulers_of
from servestudy.serving_model import load_serving_model
from servestudy.windows.frozen import FrozenWindow

FILE = Path(wrong_schedulers.__file__)
RNG = np.random.default_rng(7)
WINDOW = FrozenWindow(
    "made", "made_0000", 0, np.cumsum(RNG.exponential(0.02, 90)), RNG.integers(20, 900, 90), RNG.integers(5, 120, 90)
)
LARGE_PROMPTS = replace(WINDOW, prompt_tokens=RNG.integers(2_000, 30_000, 90))
PUBLISHED = PublishedModel(rules_of({"drain_cutoff": "steps_5000"}))
SERVING = load_serving_model()
SMALL_CACHE = replace(SERVING, replica=replace(SERVING.replica, limits=replica_limits(300, 32)))
MODELS = {"published": PUBLISHED, "serving": SERVING}


def diagnosis(name, model, window=WINDOW, limit_s=30.0):
    job = WindowJob(model, window, 1.0, ("HIGH_PRESSURE",), name, f"{FILE}:{name}", True, limit_s)
    return run_job(job)


EXPECTED = {
    "RaisesInTheMiddle": ("raises", "KeyError: 'no such tenant' (wrong_schedulers.py, line "),
    "NeverAdmits": ("deadlock", "90 requests wait from step 0 to the end while nothing runs"),
    "HoldsForEver": ("holds_for_ever", "to the end of the run"),
    "AdmitsTwice": ("admits_twice", "it stands twice in admit"),
    "AdmitsTheFinished": ("admits_unknown", "it is not waiting"),
    "ChangesTheView": ("changes_view", "kv_tokens"),
    "TakesFromTheQueue": ("changes_view", "queue"),
    "Random": ("not_deterministic", "comes in step"),
    "ForgetsToForget": ("state_survives_reset", "comes in step"),
    "BreaksItsWord": ("decision_outlives_its_word", "comes in step"),
    "LooksAtTheLengths": ("sees_true_lengths", "with other lengths it admits"),
    "PreemptsForEver": ("livelock", "times, it never completed"),
    "ReturnsNothing": ("bad_action", "decide() returned None"),
    "AdmitsRequestsNotIds": ("bad_action", "must hold ids: request.request_id"),
    "PreemptsTheAbsent": ("unknown_request", "it stands in preempt but is not running"),
    "Exits": ("raises", "SystemExit"),
}
OF_NO_REQUEST = {"raises", "bad_action", "changes_view"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", EXPECTED)
def test_wrong_scheduler_is_diagnosed(name, model):
    kind, text = EXPECTED[name]
    result = diagnosis(name, MODELS[model])
    region, finding = next((r, f) for r, f in result.findings if f.kind == kind)
    assert region == "HIGH_PRESSURE"
    assert text in finding.text
    assert (finding.request_id is None) == (kind in OF_NO_REQUEST)
    assert bool(result.rows) == (kind not in ("raises", "bad_action"))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["Right", "RightWithArrays"])
def test_right_scheduler_has_no_finding(name, model):
    result = diagnosis(name, MODELS[model])
    assert (result.findings, result.thorough_cells, len(result.rows)) == ([], 1, 1)


def test_step_and_request_are_those_of_the_mistake():
    (_, finding) = diagnosis("HoldsForEver", PUBLISHED).findings[0]
    assert finding.request_id == 3
    assert "held from step" in finding.text
    (_, finding) = diagnosis("RaisesInTheMiddle", PUBLISHED).findings[0]
    assert finding.step == 21
    assert finding.time_s == pytest.approx(0.021)


@pytest.mark.parametrize(("model", "window"), [(PUBLISHED, LARGE_PROMPTS), (SMALL_CACHE, WINDOW)])
def test_exceeding_the_kv_cache_is_diagnosed(model, window):
    (_, finding) = next(x for x in diagnosis("ExceedsKv", model, window).findings if x[1].kind == "exceeds_kv")
    assert "its KV does not fit" in finding.text
    assert finding.request_id is not None


def test_a_last_admission_that_does_not_fit_is_told():
    """No decision follows in which the refused request could be seen to wait."""
    window = FrozenWindow("made", "made_0001", 1, np.zeros(1), np.array([200_000]), np.array([5]))
    assert diagnosis("ExceedsKv", PUBLISHED, window).findings[0][1].kind == "exceeds_kv"


@pytest.mark.parametrize("model", MODELS)
def test_exceeding_the_slots_is_diagnosed(model):
    window = FrozenWindow("made", "m", 0, np.zeros(200), np.full(200, 20), np.full(200, 50))
    model = MODELS[model]
    job = WindowJob(model, window, 1.0, ("KNEE",), "ExceedsSlots", f"{FILE}:ExceedsSlots")
    finding = run_job(job).findings[0][1]
    assert finding.kind == "exceeds_slots"
    assert finding.request_id == (64 if model is PUBLISHED else 128)


@pytest.mark.parametrize("model", MODELS)
def test_a_scheduler_that_never_returns_is_stopped(model):
    result = diagnosis("NeverReturns", MODELS[model], limit_s=0.2)
    (_, finding) = result.findings[0]
    assert finding.kind == "never_returns"
    assert "longer than 0.2 s" in finding.text
    assert result.rows == []


def test_a_victim_that_does_not_run_is_told():
    window = replace(WINDOW, output_tokens=np.full(90, 120))
    findings = [finding for _, finding in diagnosis("VictimUnknown", SMALL_CACHE, window).findings]
    assert any(f.kind == "unknown_request" and "victim() names -1" in f.text for f in findings)


def test_true_lengths_are_hidden_from_every_registered_scheduler():
    """The check itself accuses nobody: no registered scheduler decides by what it cannot see."""
    for model in MODELS.values():
        scaled = model.scaled(model.workload(WINDOW), 1.5)
        for name in schedulers_of(model.name):
            job = WindowJob(model, WINDOW, 1.0, ("HIGH_PRESSURE",), name, name)
            checked = Checked(model.scheduler(name), keep_actions=True)
            outcome = model.run(scaled, checked, name)
            assert run_again(job, scaled, outcome, checked, lambda m=model, n=name: m.scheduler(n)) == [], name


def test_every_kind_is_reached():
    tested = {kind for kind, _ in EXPECTED.values()} | {"exceeds_kv", "exceeds_slots", "never_returns"}
    assert tested | {"starves"} == set(KINDS)


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ((), "decide() returned (), must be an Action"),
        (Action(admit=5), "admit is 5, must be a sequence of request ids"),
        (Action(admit="12"), "admit is '12', must be a sequence"),
        (Action(reject=[1.5]), "reject holds 1.5, must hold ids"),
        (Action(hold=[1]), "hold is [1], must be a set of request ids"),
        (Action(prefill=[1]), "prefill is [1], must be a mapping"),
        (Action(prefill={1: 0.5}), "prefill is {1: 0.5}, must be a mapping of request ids to whole numbers"),
        (Action(regroup=None), "regroup is None, must be a mapping"),
        (Action(valid_steps=0), "valid_steps is 0, must be a whole number, 1 or more"),
        (Action(valid_steps=2.0), "valid_steps is 2.0, must be a whole number"),
        (Action(valid_until_s=np.nan), "valid_until_s is nan, must be a number of seconds"),
        (Action(valid_until_s=None), "valid_until_s is None, must be a number of seconds"),
    ],
)
def test_an_answer_that_is_no_decision_is_described(action, wrong):
    assert malformed(action).startswith(wrong)


def test_usual_answers_are_fine():
    ids = np.arange(3)
    assert malformed(Action(ids, hold={1}, prefill={1: ids[2]}, valid_steps=ids[1], regroup={}, hold_cohorts={0})) == ""
    assert malformed(Action(admit={1: "a"}.keys(), prefill=None, valid_until_s=1)) == ""

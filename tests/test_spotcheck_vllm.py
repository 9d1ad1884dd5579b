"""The adapter to vLLM, as far as it can be checked here."""

import json

import pytest

from servestudy.errors import UserError
from servestudy.spotcheck.backends.vllm_v1 import VllmEngine, model_config, scheduler_class
from servestudy.spotcheck.policy import ARMS
from servestudy.spotcheck.presets import PRESETS
from servestudy.spotcheck.replay import Job, replay

NO_VLLM = "NOT CHECKED on vLLM: it is not installed"


def test_without_vllm_the_engine_says_so_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(
        UserError, match=r"^vLLM cannot be imported \(ModuleNotFoundError: .*\); see docs/SPOTCHECK.md$"
    ):
        scheduler_class(None)


def test_the_model_is_that_of_the_preset():
    config = json.loads(json.dumps(model_config(PRESETS["7b"])))
    assert (config["num_hidden_layers"], config["hidden_size"], config["num_key_value_heads"]) == (28, 3584, 4)


def test_both_arms_make_all_tokens_and_slai_holds_decodes():
    pytest.importorskip("vllm", reason=NO_VLLM)
    preset = PRESETS["tiny"]
    engine = VllmEngine(preset, "cpu", preset.kv_tokens)
    jobs = [Job(number, 0.0, [3 + number] * 200, 20, 1.0) for number in range(20)]
    held = {}
    for arm in ("fcfs", "slai"):
        result = replay(engine, jobs, ARMS[arm], preset.kv_tokens, engine.make_clock())
        held[arm] = sum(step.held for step in result.steps)
    assert held["fcfs"] == 0 < held["slai"]

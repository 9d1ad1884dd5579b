"""The adapter to vLLM; tests/test_spotcheck_virtual_clock.py steps its scheduler."""

import json
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from virtual_clock import AMPLE, LITTLE, MODEL, differences, in_simulator, jobs, on_engine

from servestudy.errors import UserError
from servestudy.spotcheck.backends.vllm_v1 import VllmEngine, model_config, scheduler_class
from servestudy.spotcheck.policy import ARMS
from servestudy.spotcheck.presets import PRESETS

NO_VLLM = "NOT CHECKED on vLLM: it is not installed"


def test_without_vllm_the_engine_says_so_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm.v1.core.sched.scheduler", None)
    with pytest.raises(
        UserError, match=r"^vLLM cannot be imported \(ModuleNotFoundError: .*\); see docs/SPOTCHECK.md$"
    ):
        scheduler_class(None)


def test_the_model_is_that_of_the_preset():
    config = json.loads(json.dumps(model_config(PRESETS["7b"])))
    assert (config["num_hidden_layers"], config["hidden_size"], config["num_key_value_heads"]) == (28, 3584, 4)


def test_with_a_model_vllm_takes_the_steps_of_the_simulator_too():
    if find_spec("vllm") is None:
        pytest.skip(NO_VLLM)
    requests = jobs(90, 40)
    engine = VllmEngine(replace(MODEL, hidden=128), "cpu", AMPLE)
    for arm in ("fcfs", "slai"):
        outcome, holds = in_simulator(ARMS[arm], requests, AMPLE)
        result = on_engine(engine, ARMS[arm], requests, AMPLE)
        assert differences(result, outcome) == []
        assert sum(step.held for step in result.steps) == holds
        assert (holds > 0) == (arm == "slai")
    assert engine.name.startswith("vLLM 0.")
    with pytest.raises(RuntimeError, match="has 32000 tokens of KV, not 3200; one a process"):
        on_engine(engine, ARMS["fcfs"], requests, LITTLE)

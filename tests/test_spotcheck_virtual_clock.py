"""Real engines stepped by hand under a virtual clock take the steps of the simulator: transformers' and vLLM's."""

from functools import cache, partial
from importlib.util import find_spec

import numpy as np
import pytest
from virtual_clock import (
    AGREEMENT,
    AMPLE,
    LITTLE,
    MODEL,
    TBT_S,
    Made,
    differences,
    in_simulator,
    job,
    jobs,
    longest_first,
    never_critical,
    on_engine,
    open_loop,
    shortest_first,
    times,
)

HOW = {"transformers": "`make test-spotcheck` has it", "vllm": "docs/SPOTCHECK.md says how"}


@pytest.fixture(scope="module", params=["transformers", "vllm"])
def engine(request):
    """Call it with tokens of KV for an engine that has them."""
    for package in ("torch", request.param):
        if find_spec(package) is None:
            pytest.skip(f"NOT CHECKED on {request.param}: {package} is not installed; {HOW[request.param]}")
    if request.param == "vllm":
        from stepped_vllm import SteppedVllm

        return cache(partial(SteppedVllm, MODEL, "cpu"))
    import torch

    from servestudy.spotcheck.backends.transformers_cb import TransformersEngine

    torch.set_num_threads(1)
    any_kv = TransformersEngine(MODEL)
    return lambda kv_tokens: any_kv


@pytest.mark.parametrize("row", AGREEMENT, ids=lambda row: f"{row.arm} at {row.rate_rps:g}/s")
def test_with_ample_kv_engine_and_simulator_agree_step_for_step(engine, row):
    requests, arm = jobs(row.rate_rps, 300), open_loop(row.arm)
    result = on_engine(engine(AMPLE), arm, requests, AMPLE)
    outcome, holds = in_simulator(arm, requests, AMPLE)
    assert differences(result, outcome) == []
    assert len(result.steps) == outcome.last_step + 1 == row.steps
    assert result.makespan_s == pytest.approx(outcome.sim_duration_s, abs=1e-9)
    assert times(result, requests) == pytest.approx(row[3:], abs=0.0055)
    assert sum(step.held for step in result.steps) == holds
    assert (holds > 0) == (row.arm == "slai")
    assert not result.evictions


def test_the_published_variant_agrees_too(engine):
    requests, arm = jobs(90, 60), open_loop("slai_as_published")
    result = on_engine(engine(AMPLE), arm, requests, AMPLE)
    outcome, _ = in_simulator(arm, requests, AMPLE)
    assert differences(result, outcome) == []
    assert sum(step.held for step in result.steps) == 0


@pytest.mark.parametrize("policy", [longest_first, never_critical])
def test_a_broken_policy_is_noticed(engine, policy):
    requests = jobs(90, 60)
    result = on_engine(engine(AMPLE), Made("broken", policy=policy), requests, AMPLE)
    outcome, _ = in_simulator(open_loop("slai"), requests, AMPLE)
    assert len(differences(result, outcome)) > 20


@pytest.mark.parametrize("arm", ["fcfs", "slai"])
def test_with_little_kv_only_victims_differ(engine, state_fact, arm):
    requests = jobs(40, 300)
    result = on_engine(engine(LITTLE), open_loop(arm), requests, LITTLE)
    outcome, _ = in_simulator(open_loop(arm), requests, LITTLE)
    assert result.evictions
    assert outcome.preemptions.sum() > 0
    arrival_s = np.array([each.arrival_s for each in requests])[outcome.completed_ids]
    latency = float((outcome.completion_s - arrival_s).mean() / times(result, requests)[3])
    steps = (outcome.last_step + 1) / len(result.steps)
    state_fact(
        f"little KV, {arm}: simulator over {engine(LITTLE).name} {steps:.3f} in steps, {latency:.3f} in mean latency; "
        f"evictions {outcome.preemptions.sum()} and {sum(result.evictions.values())}"
    )
    assert (steps, latency) == (pytest.approx(1, abs=0.04), pytest.approx(1, abs=0.1))


def test_with_tbt_below_five_mean_steps_slai_is_the_shortest_prompt_first(engine):
    requests = jobs(90, 40, tbt_s=0.0199)
    result = on_engine(engine(AMPLE), open_loop("slai"), requests, AMPLE)
    other = on_engine(engine(AMPLE), Made("shortest", policy=shortest_first), requests, AMPLE)
    assert sum(step.held for step in result.steps) == 0
    assert result.token_steps == other.token_steps
    assert result.token_steps != on_engine(engine(AMPLE), open_loop("fcfs"), requests, AMPLE).token_steps


@pytest.mark.parametrize(
    ("arm", "prompt", "held"), [("slai", 1200, [10, 10, 10]), ("slai", 200, []), ("fcfs", 1200, [])]
)
def test_decodes_of_one_class_are_held_while_a_prefill_takes_the_budget_until_they_are_due(engine, arm, prompt, held):
    requests = [*(job(number, 0.0, 10, 60) for number in range(10)), job(10, 0.1, prompt, 2)]
    result = on_engine(engine(AMPLE), open_loop(arm), requests, AMPLE)
    assert [step.held for step in result.steps if step.held] == held
    assert all(step.tokens == MODEL.budget for step in result.steps if step.held)
    gaps_s = np.concatenate([np.diff(result.token_s(number)) for number in range(10)])
    assert gaps_s.max() < TBT_S
    assert (gaps_s.max() > 0.04) == bool(held)

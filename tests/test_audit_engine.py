"""Arms that change the engine, by hand; and the corrected engine against the published one and against itself."""

import numpy as np
import pytest
from audit_cases import completions, course, first_tokens, workload
from test_engine_against_oracle import CAPACITIES, DRAIN_STEPS, as_comparable, differences, random_workload

from servestudy.audit.defects import CHUNKED, SWITCHES
from servestudy.audit.rules import EngineRules
from servestudy.audit.switches import rules_of
from servestudy.engine import fixed_step
from servestudy.engine.fixed_step_corrected import CorrectedReplica
from servestudy.published_model import PublishedModel
from servestudy.schedulers.protocol import ReplicaLimits, ReplicaView
from servestudy.schedulers.registry import make_scheduler, schedulers_of

SCHEDULERS = schedulers_of("published")
ENGINE_ARMS = [
    (switch_id, arm)
    for switch_id, switch in SWITCHES.items()
    for arm in switch.arms
    if {"engine", "engine_changes", "parameters"} & set(switch.arms[arm].change)
]


def test_prefill_takes_chunks_of_512():
    load = workload((0, 1000, 2))
    assert completions(course(load, "fifo")) == {0: 1}
    for arm in ("decode_protected", "shared_contention"):
        outcome = course(load, "fifo", prefill_free=arm)
        assert (first_tokens(outcome), completions(outcome)) == ({0: 2}, {0: 3})


def test_a_prompt_token_of_cost_four_takes_four_times_as_long():
    assert first_tokens(course(workload((0, 1000, 2)), "fifo", prefill_free="decode_protected_cost_4")) == {0: 8}


def test_prefills_share_4096_tokens_a_step():
    outcome = course(workload(*[(0, 512, 2)] * 9), "fifo", prefill_free="decode_protected")
    assert first_tokens(outcome) == {**dict.fromkeys(range(8), 1), 8: 2}
    assert outcome.telemetry.token_budget_saturation_fraction == pytest.approx(1 / 4)  # the first of steps 0 to 3
    assert outcome.telemetry.prefill_decode_contention_fraction == pytest.approx(1 / 4)  # step 1


def test_shared_contention_goes_by_arrival_and_decode_protected_by_admission():
    """EDF admits request 1 first; a budget of 100 tokens a step."""
    load = workload((0, 500, 3), (0, 10, 3), deadline_s=[9, 1])
    small = {"step_budget": 100}
    protected = course(load, "edf", engine=small, prefill_free="decode_protected")
    shared = course(load, "edf", engine=small, prefill_free="shared_contention")
    assert first_tokens(protected) == {1: 1, 0: 6}
    assert first_tokens(shared) == {0: 5, 1: 6}


def test_the_token_budget_has_no_chunk_limit():
    load = workload((0, 4000, 2), (0, 1000, 2))
    assert first_tokens(course(load, "fifo", batch_tokens="budget")) == {0: 1, 1: 2}


TWO_TOO_LARGE = workload((0, 40, 20), (0, 40, 20)), ReplicaLimits(max_kv_tokens=100)
"""Both fit at admission (80) and after ten steps (100), not after eleven."""


def test_kv_passes_its_capacity_as_published():
    outcome = course(TWO_TOO_LARGE[0], "fifo", TWO_TOO_LARGE[1])
    assert completions(outcome) == {0: 19, 1: 19}
    assert outcome.telemetry.kv_occupancy_max == pytest.approx(1.18)  # the end of step 18


def test_kv_recompute_starts_the_last_admitted_again():
    """Evicted in steps 10, 15, 18 and 19, admitted again in the step after each, until request 0 is done."""
    outcome = course(TWO_TOO_LARGE[0], "fifo", TWO_TOO_LARGE[1], kv_never_evicts="recompute")
    assert completions(outcome) == {0: 19, 1: 39}
    assert outcome.telemetry.preemption_or_reorder_events == 4
    assert outcome.telemetry.kv_occupancy_max == 1


def test_kv_swap_keeps_the_tokens():
    outcome = course(TWO_TOO_LARGE[0], "fifo", TWO_TOO_LARGE[1], kv_never_evicts="swap")
    assert completions(outcome) == {0: 19, 1: 29}
    assert first_tokens(outcome) == {0: 0, 1: 0}
    assert outcome.telemetry.preemption_or_reorder_events == 1


def test_a_request_larger_than_the_cache_is_not_evicted_for_ever():
    load = workload((0, 40, 90))
    assert completions(course(load, "fifo", ReplicaLimits(max_kv_tokens=100), kv_never_evicts="recompute")) == {0: 89}


def test_steps_get_longer_with_batch_and_kv():
    prompt = 131_072 // 2
    outcome = course(workload((0, prompt, 2)), "fifo", batch_free="linear")
    first = 0.001 * (1 + 1 / 64 + prompt / 131_072)
    second = 0.001 * (1 + 1 / 64 + (prompt + 1) / 131_072)
    assert outcome.first_token_s.tolist() == pytest.approx([first])
    assert outcome.completion_s.tolist() == pytest.approx([first + second])
    assert outcome.sim_duration_s == pytest.approx(first)


def test_an_idle_replica_of_unequal_steps_stamps_the_end_of_its_last_step():
    outcome = course(workload((0, 64, 1), (5, 64, 1)), "fifo", batch_free="linear")
    assert outcome.completion_s.tolist() == pytest.approx([0.001 * (1 + 1 / 64 + 64 / 131_072) + t for t in (0, 5)])


@pytest.mark.parametrize(("arm", "steps"), [("steps_5000", 5_000), ("published", 50_000), ("steps_500000", 500_000)])
def test_drain_limits(arm, steps):
    outcome = course(workload((0, 3000, 2)), "vllm_faithful", drain_cutoff=arm)
    assert outcome.telemetry.n_steps == steps


def test_an_idle_replica_wakes_one_empty_step_early_as_published():
    load = workload((0, 1, 1), (0.0105, 1, 1))
    assert course(load, "fifo").telemetry.n_steps == 3
    exact = course(load, "fifo", idle_jump_floor="exact")
    assert exact.telemetry.n_steps == 2
    assert completions(exact) == {0: 0, 1: 11}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_corrected_engine_with_published_rules_is_the_published_one(scheduler):
    rules = EngineRules(drain_steps=DRAIN_STEPS)
    for slots, kv_tokens, *shape in CAPACITIES[::2]:
        load = random_workload(np.random.default_rng([7, slots, kv_tokens]), *shape)
        limits = ReplicaLimits(max_num_seqs=slots, max_kv_tokens=kv_tokens)
        outputs = load.output_tokens.tolist()
        expected = fixed_step.run(load.requests(), outputs, make_scheduler(scheduler), limits, DRAIN_STEPS)
        for step_by_step in (False, True):
            replica = CorrectedReplica(load.requests(), outputs, limits, rules)
            found = replica.run(make_scheduler(scheduler), step_by_step)
            assert not differences(as_comparable(expected, load), as_comparable(found, load))


@pytest.mark.parametrize(("switch_id", "arm"), ENGINE_ARMS)
def test_jumping_equals_stepping_under_every_arm(switch_id, arm):
    for scheduler in SWITCHES[switch_id].affects or SCHEDULERS:
        for slots, kv_tokens, *shape in (CAPACITIES[1], CAPACITIES[5]):
            load = random_workload(np.random.default_rng([3, slots, kv_tokens]), *shape)
            limits = ReplicaLimits(max_num_seqs=slots, max_kv_tokens=kv_tokens)
            both = [
                as_comparable(
                    course(load, scheduler, limits, step_by_step, {"drain_steps": 700}, **{switch_id: arm}), load
                )
                for step_by_step in (False, True)
            ]
            assert not differences(*both), (scheduler, slots)


@pytest.mark.parametrize("scheduler", CHUNKED)
def test_shadow_prefill_agrees_with_the_engine_that_models_it(scheduler):
    model = PublishedModel(rules_of({"prefill_free": "decode_protected"}))
    watched = model.scheduler(scheduler)
    decide, seen = watched.decide, []

    def compared(view: ReplicaView):
        action = decide(view)
        running = [request.request_id for request in view.running] + list(action.admit)
        left = {i: view.prefill_left(i) - (action.prefill or {}).get(i, 0) for i in running if i not in action.preempt}
        seen.append(({i: tokens for i, tokens in left.items() if tokens}, dict(watched._to_prefill)))
        return action

    watched.decide = compared
    load = random_workload(np.random.default_rng(1), 2900, 40, 0.5, 2.0)
    model.run(load, watched, scheduler)
    assert sum(bool(counted) for _, counted in seen) > 10
    assert all(engine == counted for engine, counted in seen)

"""Arms that change a scheduler, each on a case whose course is known by hand."""

import pytest
from audit_cases import SHORT_DRAIN, completions, course, first_tokens, workload

from servestudy.schedulers.protocol import ReplicaLimits

ONE_SLOT = ReplicaLimits(max_num_seqs=1)
LONG_THEN_SHORT = workload((0, 3000, 2), (0, 100, 2))


def test_a_long_prompt_at_the_head_blocks_vllm_for_ever_as_published():
    outcome = course(LONG_THEN_SHORT, "vllm_faithful")
    assert completions(outcome) == {}
    assert outcome.last_step == SHORT_DRAIN - 1


@pytest.mark.parametrize(
    ("arm", "first"),
    [
        ("cap_131072", {0: 0, 1: 0}),
        ("no_cap", {0: 0, 1: 0}),
        ("oversize_alone", {0: 0, 1: 1}),
        ("oversize_skipped", {1: 0}),
    ],
)
def test_head_of_line_arms(arm, first):
    assert first_tokens(course(LONG_THEN_SHORT, "vllm_faithful", head_of_line_2560=arm)) == first


def test_an_oversize_prompt_is_not_alone_behind_a_short_one():
    load = workload((0, 100, 2), (0, 3000, 2))
    assert first_tokens(course(load, "vllm_faithful", head_of_line_2560="oversize_alone")) == {0: 0, 1: 1}


def test_laxity_in_steps_runs_the_longest_first_and_in_seconds_the_most_urgent():
    load = workload((0, 1, 100), (0, 1, 10), deadline_s=[10, 0.02])
    assert first_tokens(course(load, "least_laxity_first", ONE_SLOT)) == {0: 0, 1: 100}
    assert first_tokens(course(load, "least_laxity_first", ONE_SLOT, laxity_units="seconds")) == {1: 0, 0: 10}


HOPELESS_LONG_AND_SHORT = workload((0, 1, 30), (0, 1, 10), (0, 1, 5), deadline_s=[0.005, 0.002, 9])
"""Laxities -0.0255, -0.0085 and positive."""


@pytest.mark.parametrize(
    ("arm", "first"),
    [
        ("published", {2: 0}),
        ("last", {2: 0, 0: 5, 1: 35}),
        ("last_by_laxity", {2: 0, 0: 5, 1: 35}),
        ("last_by_service", {2: 0, 1: 5, 0: 15}),
        ("dropped", {2: 0}),
    ],
)
def test_scorpio_arms(arm, first):
    outcome = course(HOPELESS_LONG_AND_SHORT, "scorpio_style_slo_guard", ONE_SLOT, scorpio_starvation=arm)
    assert first_tokens(outcome) == first
    assert outcome.rejected_ids == ((0, 1) if arm == "dropped" else ())
    assert (outcome.last_step == SHORT_DRAIN - 1) == (arm == "published")


def test_last_by_laxity_is_not_the_order_of_the_queue():
    load = workload((0, 1, 10), (0, 1, 10), (0, 1, 5), deadline_s=[0.005, 0.002, 9])
    outcome = course(load, "scorpio_style_slo_guard", ONE_SLOT, scorpio_starvation="last_by_laxity")
    assert first_tokens(outcome) == {2: 0, 1: 5, 0: 15}


def test_hopeless_requests_take_credit_or_not():
    """Request 0 fills 0.7 of the KV, which puts the guard up: four credits at step 1, two more at step 2."""
    load = workload((0, 70, 20), *[(0.001, 1, 5)] * 6, deadline_s=[9] + [0.002] * 6)
    limits = ReplicaLimits(max_kv_tokens=100)
    with_credit = first_tokens(course(load, "scorpio_style_slo_guard", limits, scorpio_starvation="last"))
    without = first_tokens(course(load, "scorpio_style_slo_guard", limits, scorpio_starvation="last_without_credit"))
    assert [with_credit[i] for i in range(7)] == [0, 1, 1, 1, 1, 2, 2]
    assert [without[i] for i in range(7)] == [0, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("scheduler", ["estimated_service_time_first", "weighted_fair_share"])
def test_without_alpha_the_prompt_does_not_count(scheduler):
    load = workload((0, 1000, 10), (0, 10, 100))
    assert first_tokens(course(load, scheduler, ONE_SLOT)) == {1: 0, 0: 100}
    assert first_tokens(course(load, scheduler, ONE_SLOT, laxity_charges_prefill="alpha_0")) == {0: 0, 1: 10}


def test_alpha_makes_a_long_prompt_hopeless_for_scorpio():
    load = workload((0, 1000, 10), deadline_s=0.1)
    assert completions(course(load, "scorpio_style_slo_guard")) == {}
    assert completions(course(load, "scorpio_style_slo_guard", laxity_charges_prefill="alpha_0")) == {0: 9}


@pytest.mark.parametrize(
    ("arm", "completed"),
    [("published", {0, 1, 2}), ("threshold_minus_1s", {0, 1}), ("threshold_minus_100ms", {0}), ("threshold_0", set())],
)
def test_admission_thresholds(arm, completed):
    load = workload((0, 1, 50), (0, 1, 500), (0, 1, 2000), deadline_s=0)
    outcome = course(load, "admission_control", engine={"drain_steps": 5000}, admission_admits_all=arm)
    assert set(completions(outcome)) == completed


def test_shadow_prefill_arms_of_chunked_vllm():
    """Three prompts of 1000 under 512 a step. Published, C waits until the shadow prefills of A and B leave room."""
    load = workload((0, 1000, 50), (0, 1000, 50), (0, 1000, 50))
    name = "vllm_chunked_prefill_faithful"
    assert first_tokens(course(load, name)) == {0: 0, 1: 1, 2: 3}
    assert first_tokens(course(load, name, shadow_prefill="at_once")) == {0: 0, 1: 1, 2: 2}
    assert first_tokens(course(load, name, shadow_prefill="modelled")) == {0: 2, 1: 4, 2: 6}


def test_blocks_of_slai_grow_and_evict():
    """Ten blocks; two prompts of four blocks; from 81 tokens on both need a sixth."""
    load = workload((0, 64, 40), (0, 64, 40))
    limits = ReplicaLimits(max_kv_tokens=160)
    assert course(load, "slai_faithful", limits).telemetry.preemption_or_reorder_events == 0
    grown = course(load, "slai_faithful", limits, slai_blocks="grow")
    assert grown.telemetry.preemption_or_reorder_events > 0
    assert completions(grown)[0] == 39


def held_steps(**chosen: str) -> int:
    """Steps for which a decode rests while the shadow prefill of another request, 475 steps, takes the budget."""
    load = workload((0, 10, 20), (0.003, 512 * 475, 600))
    limits = ReplicaLimits(max_kv_tokens=1_000_000)
    outcome = course(load, "slai_faithful", limits, engine={"drain_steps": 5000}, **chosen)
    return completions(outcome)[0] - first_tokens(outcome)[0] - 19


@pytest.mark.parametrize("arm", ["tier_100ms", "tier_300ms", "offset_50_steps"])
def test_a_tighter_tier_or_larger_offset_wakes_held_decodes_of_slai(arm):
    """0.495 s after its last token a held decode turns critical, too late here; under the arms it does so earlier."""
    assert held_steps() > held_steps(slai_slo_inactive=arm) > 0

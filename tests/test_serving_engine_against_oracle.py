"""Jumping, stepping and the literal oracle agree for every serving scheduler: same iteration for every event."""

import math
import random
from dataclasses import replace

import pytest
from oracle.serving_engine import simulate

from servestudy.engine.iteration import ReplicaConfig, run
from servestudy.engine.time_model import time_model
from servestudy.schedulers.protocol import ReplicaLimits, Request
from servestudy.schedulers.serving.admission_control import AdmissionControl
from servestudy.schedulers.serving.edf import Edf
from servestudy.schedulers.serving.estimated_service_time_first import EstimatedServiceTimeFirst
from servestudy.schedulers.serving.fcfs import Fcfs
from servestudy.schedulers.serving.kv_constrained_online import KvConstrainedOnline
from servestudy.schedulers.serving.least_attained_service import LeastAttainedService
from servestudy.schedulers.serving.least_laxity_first import LeastLaxityFirst
from servestudy.schedulers.serving.multi_level_feedback import MultiLevelFeedback
from servestudy.schedulers.serving.sarathi_faithful import SarathiFaithful
from servestudy.schedulers.serving.scorpio_style_slo_guard import ScorpioStyleSloGuard
from servestudy.schedulers.serving.shortest_remaining_first import ShortestRemainingFirst
from servestudy.schedulers.serving.slai_faithful import SlaiFaithful
from servestudy.schedulers.serving.vllm_chunked_prefill_faithful import VllmChunkedPrefillFaithful
from servestudy.schedulers.serving.vllm_faithful import VllmFaithful
from servestudy.schedulers.serving.vllm_style_token_budget import VllmStyleTokenBudget
from servestudy.schedulers.serving.weighted_fair_share import WeightedFairShare

MAKE = {
    "fifo": Fcfs,
    "edf": Edf,
    "least_laxity_first": LeastLaxityFirst,
    "estimated_service_time_first": EstimatedServiceTimeFirst,
    "weighted_fair_share": WeightedFairShare,
    "kv_constrained_online": lambda: KvConstrainedOnline(kv_target=1.3, urgent_laxity_s=0.3),
    "vllm_faithful": VllmFaithful,
    "vllm_chunked_prefill_faithful": VllmChunkedPrefillFaithful,
    "sarathi_faithful": lambda: SarathiFaithful(token_budget=48),
    "slai_faithful": lambda: SlaiFaithful(token_budget=48, offset_s=0.02, crowded_offset_s=0.04, crowded_kv_share=0.8),
    "admission_control": AdmissionControl,
    "vllm_style_token_budget": VllmStyleTokenBudget,
    "scorpio_style_slo_guard": lambda: ScorpioStyleSloGuard(iteration_s_per_request=0.01),
    "multi_level_feedback": lambda: MultiLevelFeedback(first_quantum_tokens=2, starvation_s=1.0),
    "shortest_remaining_first": ShortestRemainingFirst,
    "least_attained_service": lambda: LeastAttainedService(quantum_tokens=5),
}
"""Parameters are small where a small workload would not reach the rule otherwise."""

SMALL = ReplicaLimits(
    max_num_seqs=8, max_num_batched_tokens=96, max_kv_tokens=640, block_tokens=16, watermark_tokens=16
)
FEW_SLOTS = replace(SMALL, max_num_seqs=3, max_kv_tokens=3200)
TOO_LONG = 5000
A100 = time_model("llama_2_7b_a100")
CONFIGS = {
    "tight": ReplicaConfig(SMALL, A100),
    "tight_swap": ReplicaConfig(SMALL, A100, preemption="swap", swap_bytes_per_s=5e9),
    "few_slots": ReplicaConfig(FEW_SLOTS, A100, preemption="swap"),
}


def workload(seed, n=50):
    """Requests that fit the small replicas, but for one in 50; predictions are off by up to a factor of two."""
    rng = random.Random(seed)
    now, requests, outputs = 0.0, [], []
    for i in range(n):
        now += 0.0 if rng.random() < 0.1 else rng.expovariate(1 / rng.choice([0.02, 0.1, 0.2]))
        prompt = TOO_LONG if rng.random() < 0.02 else rng.choice([rng.randint(1, 40), rng.randint(1, 300), 48, 96])
        output = rng.choice([1, rng.randint(1, 20), rng.randint(1, 120)])
        predicted = max(1, round(output * math.exp(rng.uniform(-0.7, 0.7))))
        requests.append(
            Request(
                request_id=i,
                arrival_s=now,
                prompt_tokens=prompt,
                predicted_output_tokens=predicted,
                deadline_s=now + rng.choice([0.05, 0.3, 2.0]) + 0.025 * predicted,
                weight=rng.choice([0.5, 1.0, 2.0]),
                class_id=rng.choice("abc"),
                ttft_deadline_s=now + rng.choice([0.1, 0.5, math.inf]),
                tbt_target_s=rng.choice([0.05, 0.1, 0.3, math.inf]),
            )
        )
        outputs.append(output)
    return requests, outputs


def oracle_of(requests, outputs, scheduler, config):
    swap_s = config.time_model.kv_token_bytes / config.swap_bytes_per_s if config.preemption == "swap" else None
    return simulate(requests, outputs, scheduler, config.limits, config.time_model.iteration_s, swap_s, config.drain_s)


def check(outcome, truth, context):
    assert outcome.completed_ids.tolist() == list(truth.completion), context
    first = [truth.first_token[i] for i in truth.completion]
    assert outcome.first_token_step.tolist() == [step for step, _ in first], context
    assert outcome.completion_step.tolist() == [step for step, _ in truth.completion.values()], context
    assert outcome.first_token_s.tolist() == pytest.approx([s for _, s in first], rel=1e-9), context
    assert outcome.completion_s.tolist() == pytest.approx([s for _, s in truth.completion.values()], rel=1e-9), context
    admission_s = [truth.admission[i][1] for i in truth.completion]
    assert outcome.admission_s.tolist() == pytest.approx(admission_s, rel=1e-9), context
    assert list(outcome.rejected_ids) == truth.rejected, context
    assert list(outcome.waiting_ids) == truth.waiting, context
    assert list(outcome.running_ids) == truth.running, context
    assert outcome.telemetry.preemption_or_reorder_events == truth.preemptions, context
    assert outcome.telemetry.n_steps == truth.iterations, context
    assert outcome.sim_duration_s == pytest.approx(truth.end_s, rel=1e-9), context


@pytest.mark.parametrize("config_name", CONFIGS)
@pytest.mark.parametrize("name", MAKE)
def test_jumping_and_stepping_equal_the_oracle(name, config_name, state_fact):
    config = CONFIGS[config_name]
    preemptions = rejections = holds = 0
    seeds = range(3)
    for seed in seeds:
        requests, outputs = workload(seed)
        truth = oracle_of(requests, outputs, MAKE[name](), config)
        assert not truth.ignored, "the scheduler asked for what the rules do not allow"
        for step_by_step in (True, False):
            outcome = run(requests, outputs, MAKE[name](), config, step_by_step=step_by_step)
            check(outcome, truth, (name, config_name, seed, "stepping" if step_by_step else "jumping"))
        preemptions += truth.preemptions
        rejections += len(truth.rejected) - sum(r.prompt_tokens == TOO_LONG for r in requests)
        holds += truth.holds
    if config_name.startswith("tight"):
        assert preemptions, "the workloads are meant to run out of KV"
    assert bool(rejections) == (name in ("admission_control", "scorpio_style_slo_guard"))
    assert bool(holds) == (name == "slai_faithful")
    state_fact(f"serving oracle: {name}, {config_name}: {len(seeds)} workloads, {preemptions} preemptions")

"""The engine, jumping and stepping, against the literal oracle: every event in the same step, every value equal.

Random traces with few slots and little KV force what the published windows never show: evictions, starvation,
holds that turn critical, runs that end at the drain limit.
"""

import math
from dataclasses import asdict

import numpy as np
import pytest
from oracle import SCHEDULERS, Limits, run, study
from oracle import Request as OracleRequest

from servestudy import workload
from servestudy.engine import fixed_step
from servestudy.metrics import cell_metrics
from servestudy.schedulers.protocol import ReplicaLimits
from servestudy.schedulers.registry import make_scheduler
from servestudy.workload import Workload

DRAIN_STEPS = 1_500


def random_workload(
    rng: np.random.Generator, longest_prompt: int, mean_output: int, span_s: float, slack_s: float
) -> Workload:
    """Sixty requests with ties in arrival, length and deadline."""
    count = 60
    arrival = np.sort(np.round(rng.uniform(0, span_s, count), 3))
    arrival -= arrival[0]
    prompt = rng.integers(1, longest_prompt + 1, count)
    prompt[rng.random(count) < 0.3] = prompt[0]
    output = np.minimum(rng.geometric(1 / mean_output, count), 400)
    predicted = np.maximum(1, np.rint(output * rng.lognormal(0, 0.2, count)).astype(int))
    service = 0.0005 * prompt + 0.001 * predicted
    return Workload(
        arrival_s=arrival,
        prompt_tokens=prompt,
        output_tokens=output,
        predicted_output_tokens=predicted,
        deadline_s=arrival + service + np.round(rng.uniform(-0.02, slack_s, count), 2).clip(0),
        weight=np.ones(count),
    )


def oracle_requests(load: Workload) -> list[OracleRequest]:
    columns = (
        load.arrival_s,
        load.prompt_tokens,
        load.predicted_output_tokens,
        load.output_tokens,
        load.deadline_s,
        load.weight,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [OracleRequest(request_id, *row) for request_id, row in enumerate(rows)]


def as_comparable(outcome: fixed_step.Outcome, load: Workload) -> dict:
    ids = outcome.completed_ids.tolist()
    return {
        "completion_order": ids,
        "completion_step": dict(zip(ids, outcome.completion_step.tolist(), strict=True)),
        "first_token_step": dict(zip(ids, outcome.first_token_step.tolist(), strict=True)),
        "last_step": outcome.last_step,
        "values": cell_metrics(outcome, load) | asdict(outcome.telemetry),
    }


def oracle_comparable(requests: list[OracleRequest], scheduler: str, limits: Limits) -> dict:
    result = run(requests, scheduler, limits)
    assert result.refused == 0
    done = result.completion_step
    return {
        "completion_order": result.completion_order,
        "completion_step": done,
        "first_token_step": {i: s for i, s in result.first_token_step.items() if i in done},
        "last_step": result.last_step,
        "values": study.metrics(result, requests) | result.telemetry,
    }


def differences(expected: dict, found: dict) -> list[str]:
    lines = [key for key in expected if key != "values" and expected[key] != found[key]]
    for name, value in expected["values"].items():
        other = found["values"][name]
        if not (value == other or (math.isnan(value) and math.isnan(other))):
            lines.append(f"{name}: {value!r} against {other!r}")
    return lines


CAPACITIES = [
    # slots, KV tokens (powers of two, so that the oracle's sums of shares are exact), longest prompt, mean output,
    # span of the arrivals (s), slack (s). The first three are short of KV: they evict.
    (32, 1024, 40, 120, 0.1, 0.3),
    (16, 2048, 700, 250, 0.2, 0.3),
    (64, 4096, 900, 250, 0.1, 0.3),
    (4, 512, 90, 40, 0.3, 0.3),
    (8, 2048, 400, 40, 0.4, 0.3),
    (8, 4096, 2900, 40, 1.0, 1.0),
    (16, 16384, 2900, 40, 0.5, 2.0),
    (64, 32768, 3500, 100, 0.2, 4.0),
    (64, 131072, 3500, 40, 3.0, 1.0),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("capacity", CAPACITIES, ids=lambda c: f"{c[0]}x{c[1]}")
def test_same_events_as_the_oracle(scheduler, capacity):
    slots, kv_tokens, *shape = capacity
    for seed in range(8):
        rng = np.random.default_rng([seed, slots, kv_tokens])
        load = random_workload(rng, *shape)
        limits = ReplicaLimits(max_num_seqs=slots, max_kv_tokens=kv_tokens)
        expected = oracle_comparable(
            oracle_requests(load),
            scheduler,
            Limits(max_active_sequences=slots, max_kv_tokens=kv_tokens, drain_steps=DRAIN_STEPS),
        )
        for step_by_step in (False, True):
            outcome = fixed_step.run(
                load.requests(),
                load.output_tokens.tolist(),
                make_scheduler(scheduler),
                limits,
                DRAIN_STEPS,
                step_by_step,
            )
            wrong = differences(expected, as_comparable(outcome, load))
            assert not wrong, f"seed {seed}, {'stepping' if step_by_step else 'jumping'}: {wrong}"


@pytest.mark.parametrize("scheduler", ["vllm_faithful", "vllm_chunked_prefill_faithful", "sarathi_faithful"])
def test_the_random_traces_do_force_evictions(scheduler):
    evictions = {}
    for slots, kv_tokens, *shape in CAPACITIES[:3]:
        load = random_workload(np.random.default_rng([0, slots, kv_tokens]), *shape)
        outcome = fixed_step.run(
            load.requests(),
            load.output_tokens.tolist(),
            make_scheduler(scheduler),
            ReplicaLimits(max_num_seqs=slots, max_kv_tokens=kv_tokens),
            DRAIN_STEPS,
        )
        evictions[slots, kv_tokens] = outcome.telemetry.preemption_or_reorder_events
    assert min(evictions.values()) > 0
    assert sum(evictions.values()) > 20


def test_synthesis_and_scaling_equal_the_oracle():
    rng = np.random.default_rng(5)
    time_s = 1.7e9 + np.sort(rng.integers(0, 40_000_000, 200)) * 2.0**-22
    prompt, output = rng.integers(1, 5000, 200), rng.integers(1, 6000, 200)
    ours = workload.rescale(workload.synthesize(time_s, prompt, output, 17), 68.5)
    rows = list(zip(time_s.tolist(), prompt.tolist(), output.tolist(), strict=True))
    theirs = study.rescale(study.synthesize(rows, 17), 68.5)
    assert oracle_requests(ours) == theirs

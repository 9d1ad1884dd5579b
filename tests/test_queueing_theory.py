"""The serving engine against queueing theory: M/G/1, Little's law, latency that rises with load."""

import math
from itertools import pairwise

import numpy as np
import pytest

from servestudy.engine.iteration import ReplicaConfig, replica_limits, run
from servestudy.engine.time_model import PROFILES
from servestudy.schedulers.protocol import Request
from servestudy.schedulers.serving.fcfs import Fcfs

A100 = PROFILES["llama_2_7b_a100"]
ONE_AT_A_TIME = ReplicaConfig(limits=replica_limits(7424, max_num_seqs=1))
PROMPTS, OUTPUTS = np.array([20, 100, 600, 1500]), np.array([1, 10, 40, 200])
"""All pairs are equally likely."""


def service_s(prompt: int, output: int) -> float:
    """Seconds that a request takes alone."""
    prefill = A100.iteration_s(prompt, 0, 0, prompt**2)
    return prefill + sum(A100.iteration_s(1, 1, prompt + made) for made in range(output - 1))


def drawn(seed: int, requests: int, rate: float) -> tuple[list[Request], list[int]]:
    """Poisson arrivals of `rate` requests a second, independent lengths."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / rate, requests)).tolist()
    prompts, outputs = rng.choice(PROMPTS, requests).tolist(), rng.choice(OUTPUTS, requests).tolist()
    rows = zip(range(requests), arrivals, prompts, outputs, strict=True)
    return [Request(*row, math.inf, 1.0, "all") for row in rows], outputs


@pytest.mark.parametrize("utilisation", [0.3, 0.6])
def test_one_request_at_a_time_waits_as_pollaczek_and_khinchine_say(state_fact, utilisation):
    services = np.array([service_s(prompt, output) for prompt in PROMPTS for output in OUTPUTS])
    rate = utilisation / services.mean()
    expected = rate * np.mean(services**2) / (2 * (1 - utilisation))
    means = []
    for seed in range(20):
        requests, outputs = drawn(seed, 1000, rate)
        outcome = run(requests, outputs, Fcfs(), ONE_AT_A_TIME)
        arrival_s = np.array([requests[i].arrival_s for i in outcome.completed_ids])
        means.append(np.mean((outcome.admission_s - arrival_s)[200:]))
    error = np.std(means, ddof=1) / math.sqrt(len(means))
    found = f"mean wait {np.mean(means):.4f} s, theory {expected:.4f} s, standard error {error:.4f} s"
    state_fact(f"M/G/1 at utilisation {utilisation}: {found}")
    assert error < 0.05 * expected
    assert abs(np.mean(means) - expected) < 3 * error


def test_service_times_are_those_of_a_request_alone():
    requests, outputs = drawn(1, 200, 2.0)
    outcome = run(requests, outputs, Fcfs(), ONE_AT_A_TIME)
    found = outcome.completion_s - outcome.admission_s
    expected = [service_s(requests[i].prompt_tokens, outputs[i]) for i in outcome.completed_ids]
    assert found == pytest.approx(expected, rel=1e-9)


def test_littles_law_holds_for_what_the_scheduler_sees():
    seen = []

    class Records(Fcfs):
        def decide(self, view):
            seen.append((view.time_s, view.waiting_count + view.running_count))
            return super().decide(view)

    requests, outputs = drawn(3, 400, 3.0)
    config = ReplicaConfig(limits=replica_limits(300, max_num_seqs=16))
    outcome = run(requests, outputs, Records(), config, step_by_step=True)
    assert len(outcome.completed_ids) == len(requests)
    assert outcome.telemetry.preemption_or_reorder_events > 0
    end_s = outcome.sim_duration_s
    arrival_s = np.array([request.arrival_s for request in requests])
    area = 0.0  # under the number of requests in the system
    for (begin, number), (following, _) in pairwise([*seen, (end_s, 0)]):
        left = outcome.completion_s[outcome.completion_s <= following]
        idle = len(left) == np.sum(arrival_s < following)
        end = left.max() if idle else following
        inside = arrival_s[(arrival_s > begin) & (arrival_s < end)]  # seen only when the iteration ends
        area += number * (end - begin) + np.sum(end - inside)
    latency = outcome.completion_s - arrival_s[outcome.completed_ids]
    assert area / end_s == pytest.approx(len(requests) / end_s * latency.mean(), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_every_latency_rises_with_the_load_on_paired_arrivals(seed):
    requests, outputs = drawn(seed, 300, 0.5)
    latencies = []
    for load in (0.5, 0.9, 1.0, 1.1, 1.5, 3.0):
        faster = [request._replace(arrival_s=request.arrival_s / load) for request in requests]
        outcome = run(faster, outputs, Fcfs(), ONE_AT_A_TIME)
        assert outcome.completed_ids.tolist() == list(range(len(requests)))
        latencies.append(outcome.completion_s - np.array([request.arrival_s for request in faster]))
    assert (np.diff(latencies, axis=0) > -1e-9).all()
    assert (np.diff(np.mean(latencies, axis=1)) > 0).all()

"""Does the engine, with vLLM's first rules, reproduce the times that the tiers study reports for vLLM on A100 replicas?

Requests of 512 prompt and 128 output tokens, dispatched round robin. Arrivals as that study's simulator drew them:
Python's generator, seed 42, exponential gaps cut at three times their mean.
"""

import math
import random

import numpy as np
import pytest

from servestudy.engine.iteration import ReplicaConfig, replica_limits, run
from servestudy.engine.time_model import PROFILES
from servestudy.schedulers.protocol import Request
from servestudy.schedulers.serving.vllm_faithful import VllmFaithful

PROMPT_TOKENS, OUTPUT_TOKENS = 512, 128


def poisson_arrivals(requests: int, rate: float) -> list[float]:
    random.seed(42)
    time_s, arrivals = 0.0, []
    for _ in range(requests):
        time_s += min(-math.log(1 - random.random()) / rate, 3 / rate)
        arrivals.append(time_s)
    return arrivals


QUADRATIC = PROFILES["llama_2_7b_a100"]
ATTENTION = {"quadratic": QUADRATIC, "arithmetic": QUADRATIC.with_arithmetic_attention()}


def times(
    attention: str, requests: int, rate: float, replicas: int, max_seqs: int, max_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """End-to-end times and times to first token of all requests, in seconds."""
    limits = replica_limits(7424, max_num_seqs=max_seqs, max_num_batched_tokens=max_tokens)
    config = ReplicaConfig(limits=limits, time_model=ATTENTION[attention])
    end_to_end, to_first_token = [], []
    arrivals = poisson_arrivals(requests, rate)
    for replica in range(replicas):
        own = [
            Request(i, time_s, PROMPT_TOKENS, OUTPUT_TOKENS, math.inf, 1.0, "all")
            for i, time_s in enumerate(arrivals[replica::replicas])
        ]
        outcome = run(own, [OUTPUT_TOKENS] * len(own), VllmFaithful(), config)
        assert len(outcome.completed_ids) == len(own)
        arrival_s = np.array([own[i].arrival_s for i in outcome.completed_ids])
        end_to_end.append(outcome.completion_s - arrival_s)
        to_first_token.append(outcome.first_token_s - arrival_s)
    return np.concatenate(end_to_end), np.concatenate(to_first_token)


def check(state_fact, name: str, found: dict[str, float], reported: dict[str, float]) -> None:
    worst = max(abs(found[key] / reported[key] - 1) for key in reported)
    shown = ", ".join(f"{key} {found[key]:.5g} (reported {reported[key]:.5g})" for key in reported)
    state_fact(f"vLLM times, {name}: {shown}; off by {worst:.2%} at most")
    assert found == pytest.approx(reported, rel=0.02)


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize(
    ("replicas", "p50", "p90", "p99", "mean"),
    [
        (1, 1.343548, 1.532477, 1.605048, 1.375046),
        (2, 1.268113, 1.340699, 1.384978, 1.283031),
        (3, 1.249130, 1.296368, 1.326138, 1.264336),
        (4, 1.249130, 1.289555, 1.293216, 1.256523),
    ],
)
def test_end_to_end_times_at_one_request_a_second(state_fact, attention, replicas, p50, p90, p99, mean):
    end_to_end, _ = times(attention, 50, 1.0, replicas, max_seqs=64, max_tokens=2048)
    found = dict(zip(("p50", "p90", "p99"), np.percentile(end_to_end, [50, 90, 99]), strict=True))
    found["mean"] = end_to_end.mean()
    check(
        state_fact,
        f"{replicas} replicas, {attention} attention",
        found,
        {"p50": p50, "p90": p90, "p99": p99, "mean": mean},
    )


@pytest.mark.parametrize("attention", ATTENTION)
def test_end_to_end_first_token_and_decode_times_at_ten_requests_a_second(state_fact, attention):
    end_to_end, to_first_token = times(attention, 800, 10.0, 4, max_seqs=96, max_tokens=4096)
    decode = (end_to_end - to_first_token) / OUTPUT_TOKENS
    found = {}
    for name, values in (("E2E", end_to_end), ("TTFT", to_first_token), ("decode", decode)):
        found[f"{name} mean"] = values.mean()
        found[f"{name} p99"] = np.percentile(values, 99)
    found["E2E p50"], found["E2E p90"] = np.percentile(end_to_end, [50, 90])
    reported = {
        "E2E mean": 1.456367,
        "E2E p99": 1.6280306,
        "TTFT mean": 0.0416907,
        "TTFT p99": 0.0470394,
        "decode mean": 0.0110522,
        "decode p99": 0.0123758,
        "E2E p50": 1.453297,
        "E2E p90": 1.531906,
    }
    check(state_fact, f"4 replicas under load, {attention} attention", found, reported)

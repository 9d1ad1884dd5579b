"""Engines stepped by hand under a virtual clock: one cost model, list of requests and set of policies for all.

A step takes 4 ms and 30 us a token, whatever the machine: only decisions of the schedulers make a difference.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from made_requests import made_requests

from servestudy.engine.outcome import Outcome
from servestudy.spotcheck.clock import VirtualClock
from servestudy.spotcheck.policy import ARMS, Arm, Order, Slai, fcfs, slai
from servestudy.spotcheck.presets import PRESETS
from servestudy.spotcheck.replay import Engine, Job, Replay, replay
from servestudy.spotcheck.simulator import StepTime, simulate

STEP = StepTime(0.004, 30e-6)
TBT_S = 0.05
AMPLE, LITTLE = 32_000, 3_200
"""Tokens of KV."""
MODEL = replace(PRESETS["tiny"], layers=1, hidden=32, mlp=64, vocabulary=256)
"""Budget and seats of the preset, around a model as small as can be: its tokens do not matter."""


class Row(NamedTuple):
    """What 300 requests give with ample KV, the same on every engine; times in seconds."""

    rate_rps: float
    arm: str
    steps: int
    makespan_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    latency_s: float


AGREEMENT = (
    Row(60, "fcfs", 863, 5.63, 0.017, 0.126, 0.356),
    Row(60, "slai", 869, 5.65, 0.014, 0.099, 0.425),
    Row(90, "fcfs", 491, 4.14, 0.091, 0.230, 0.565),
    Row(90, "slai", 523, 4.27, 0.029, 0.664, 0.737),
)
"""Seen on vLLM 0.32 before there was the simulator's engine."""


@dataclass(frozen=True)
class Made(Arm):
    """An arm with a made policy."""

    policy: Callable[..., Order] = fcfs

    def decide(self, candidates, now_s, mean_step_s, kv_used):
        return self.policy(candidates, now_s, mean_step_s, kv_used)


def longest_first(candidates, now_s, mean_step_s, kv_used) -> Order:
    """A broken SLAI: the longest waiting prompt goes first."""
    order = slai(candidates, now_s, mean_step_s, kv_used, Slai())
    return order._replace(new=order.new[::-1])


def never_critical(candidates, now_s, mean_step_s, kv_used) -> Order:
    """A broken SLAI: decodes wait for prefills however late they are."""
    order = slai(candidates, now_s, mean_step_s, kv_used, Slai())
    return order._replace(critical=(), rest=[*order.critical, *order.rest])


def shortest_first(candidates, *_) -> Order:
    """FCFS, but that the shortest waiting prompt goes first."""
    order = fcfs(candidates)
    return order._replace(new=sorted(order.new, key=lambda c: (c.prompt_tokens, c.arrival_s, c.request_id)))


def open_loop(name: str) -> Arm:
    """The arm of this name without the limit of its client."""
    return replace(ARMS[name], client_threads=None)


def job(number: int, arrival_s: float, prompt: int, output: int, tbt_s: float = TBT_S) -> Job:
    return Job(number, arrival_s, [3 + (7 * number + place) % 250 for place in range(prompt)], output, tbt_s)


def jobs(rate_rps: float, n: int, tbt_s: float = TBT_S) -> list[Job]:
    return [job(number, *row, tbt_s) for number, row in enumerate(made_requests(rate_rps, n))]


def on_engine(engine: Engine, arm: Arm, requests: list[Job], kv_tokens: int) -> Replay:
    return replay(engine, requests, arm, kv_tokens, VirtualClock(lambda tokens: STEP.iteration_s(tokens, 0, 0)))


def in_simulator(arm: Arm, requests: list[Job], kv_tokens: int) -> tuple[Outcome, int]:
    """The outcome, and how many decodes were held."""
    rows = [(each.arrival_s, len(each.prompt), each.output_tokens, each.tbt_s) for each in requests]
    return simulate(rows, arm, STEP, kv_tokens, MODEL.budget, MODEL.max_num_seqs)


def differences(result: Replay, outcome: Outcome) -> list[int]:
    """Requests whose first or last token is made in another step."""
    steps = zip(outcome.completed_ids, outcome.first_token_step, outcome.completion_step, strict=True)
    return [i for i, first, last in steps if (result.token_steps[i][0], result.token_steps[i][-1]) != (first, last)]


def times(result: Replay, requests: list[Job]) -> tuple[float, float, float, float]:
    """Makespan, median and 99th percentile of the time to the first token, mean latency of a replay of 300 requests."""
    tokens_s = [result.token_s(each.request_id) - each.arrival_s for each in requests]
    ttft_s = np.sort([each[0] for each in tokens_s])
    return result.makespan_s, ttft_s[150], ttft_s[297], float(np.mean([each[-1] for each in tokens_s]))

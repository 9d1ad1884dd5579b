"""Replaying requests on an engine: each is submitted at its time, whatever is in flight, between two steps.

The engine is stepped in the measuring thread, by the calls that its own loop makes: requests could not enter during a
step anyway, and an engine that fails does so here. A request that comes during a step is submitted when it ends; how
late that is, is recorded.
"""

import gc
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from servestudy.spotcheck.clock import Clock
from servestudy.spotcheck.policy import Arm


class Job(NamedTuple):
    """A request to submit: `arrival_s` from the start of the replay, exact lengths in tokens."""

    request_id: int
    arrival_s: float
    prompt: Sequence[int]
    output_tokens: int
    tbt_s: float


class Step(NamedTuple):
    """What one step of the engine did.

    tokens: query tokens. requests: served ones. kv_read: KV tokens that the decodes among them held. held: decodes that
        the scheduler let wait. running, waiting: requests while it ran. kv_blocks: taken after it. evictions: in it.
    token_ids: requests that made a token. finished, evicted_ids: those that were done or lost their KV.
    """

    tokens: int
    requests: int
    kv_read: int
    held: int
    running: int
    waiting: int
    kv_blocks: int
    evictions: int
    token_ids: tuple[int, ...]
    finished: tuple[int, ...]
    evicted_ids: tuple[int, ...] = ()


class Engine(Protocol):
    """A serving engine behind an adapter, with blocks of `block_tokens` of KV.

    `name` has its version; `busy_s`: seconds that a GPU computed in a replay.
    """

    name: str
    block_tokens: int
    busy_s: float

    def make_clock(self) -> Clock:
        """A clock that tells how long its steps take."""

    def begin(self, arm: Arm, kv_tokens: int, clock: Clock) -> None:
        """Start empty, with so much KV, under the arm's scheduler.

        Raises RuntimeError if the engine does not use it.
        """

    def submit(self, job: Job) -> None:
        """Put a request into the engine's queue."""

    def step(self) -> Step | None:
        """Run one step, the clock's included; None if the engine has nothing to do."""

    def end(self) -> None:
        """Free what `begin` took."""


@dataclass
class Replay:
    """What happened: per step, and per request the steps (by number) that made its tokens. Times in seconds."""

    start_s: list[float] = field(default_factory=list)
    end_s: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    token_steps: dict[int, list[int]] = field(default_factory=dict)
    submitted_s: dict[int, float] = field(default_factory=dict)
    evictions: dict[int, int] = field(default_factory=dict)

    def token_s(self, request_id: int) -> np.ndarray:
        """When each token of a request was made."""
        return np.array(self.end_s)[self.token_steps[request_id]]

    @property
    def makespan_s(self) -> float:
        return self.end_s[-1] if self.end_s else 0.0

    @property
    def mean_step_s(self) -> float:
        return float(np.mean(np.subtract(self.end_s, self.start_s)))


def replay(
    engine: Engine,
    jobs: Sequence[Job],
    arm: Arm,
    kv_tokens: int,
    clock: Clock,
    limit_s: float = float("inf"),
) -> Replay:
    """Replay jobs (in order of arrival) on an engine under an arm, to the last token.

    Raises RuntimeError if a request gets another number of tokens than it should, if the engine stops with requests
    left, or after `limit_s` of the clock; and whatever the engine raises.
    """
    result = Replay()
    engine.begin(arm, kv_tokens, clock)
    waiting = list(reversed(jobs))
    in_flight = 0
    most = arm.client_threads or len(jobs)
    try:
        with _no_garbage_collection():
            clock.start()
            while waiting or in_flight:
                while waiting and in_flight < most and waiting[-1].arrival_s <= clock.now_s():
                    job = waiting.pop()
                    engine.submit(job)
                    result.submitted_s[job.request_id] = clock.now_s()
                    result.token_steps[job.request_id] = []
                    in_flight += 1
                if not in_flight:
                    clock.wait_until(waiting[-1].arrival_s)
                    continue
                start_s = clock.now_s()
                if start_s > limit_s:
                    raise RuntimeError(f"not done after {limit_s:.0f} s: {in_flight + len(waiting)} requests are left")
                step = engine.step()
                if step is None:
                    raise RuntimeError(f"the engine stopped with {in_flight} requests in flight")
                number = len(result.steps)
                result.start_s.append(start_s)
                result.end_s.append(clock.now_s())
                result.steps.append(step)
                for request_id in step.token_ids:
                    result.token_steps[request_id].append(number)
                for request_id in step.evicted_ids:
                    result.evictions[request_id] = result.evictions.get(request_id, 0) + 1
                in_flight -= len(step.finished)
    finally:
        engine.end()
    for job in jobs:
        made = len(result.token_steps[job.request_id])
        if made != job.output_tokens:
            raise RuntimeError(f"request {job.request_id} made {made} tokens instead of {job.output_tokens}")
    return result


@contextmanager
def _no_garbage_collection():
    """A collection in the middle would look like a slow step."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()

"""A replica of the serving engine as the cluster drives it and as dispatchers, migration and autoscaling see it.

It reports its load whenever a request comes, leaves or changes place, as the instances of Llumnix do after an
iteration. In between only decodes grow, by a block each in 16 iterations, which nobody sees until the next report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from servestudy.engine.outcome import Progress
from servestudy.engine.replica_config import ReplicaConfig
from servestudy.schedulers.protocol import Request, Scheduler
from servestudy.tiers.moving_engine import MovingReplica
from servestudy.tiers.serving_schedulers import tier_of
from servestudy.tiers.workload import Requests


@dataclass(slots=True)
class Arrival:
    """A request on its way to a replica; dispatchers see its tier and its prompt."""

    arrival_s: float
    tier: int
    prefill_tokens: int
    output_tokens: int
    request: Request


def arrivals(requests: Requests, sees_tiers: bool) -> list[Arrival]:
    """In order of arrival, ids from 0. No system of this study predicts output lengths, so none is told."""
    columns = (requests.arrival_s, requests.prompt_tokens, requests.output_tokens, requests.tier)
    made = []
    for number, (at_s, prompt, output, tier) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        seen = tier if sees_tiers else 0
        request = Request(number, at_s, prompt, 0, math.inf, 1.0, str(seen))
        made.append(Arrival(at_s, seen, prompt, output, request))
    return made


class ServingReplica:
    """`stale`: the cluster's set of replicas whose load has changed since it was last looked at.

    requests_of_tier: those that wait or run, without any that is too long to run.
    counted: completed requests that are no longer among them. `head_of_line_blocks` and `waiting_blocks`
    need a TierScheduler, which knows who is first and how many tokens wait.
    """

    def __init__(
        self, index: int, scheduler: Scheduler, config: ReplicaConfig, tiers: int, stale: set[ServingReplica]
    ) -> None:
        self.index = index
        self.engine = MovingReplica(scheduler, config)
        limits = config.limits
        self.block_tokens = limits.block_tokens
        self.total_blocks = limits.max_kv_tokens // limits.block_tokens
        self.watermark_blocks = limits.watermark_tokens // limits.block_tokens
        self._most_tokens = limits.max_kv_tokens - limits.watermark_tokens
        self._draining = False
        self.reserved_blocks = 0
        self.requests_of_tier = [0] * tiers
        self.moving: set[int] = set()  # running requests whose KV is being copied away
        self._stale = stale
        self.counted = 0
        self._scheduler = scheduler
        self._time_model = config.time_model
        stale.add(self)

    # What the cluster does

    @property
    def busy(self) -> bool:
        return self.engine.in_last_iteration

    def enqueue(self, arrival: Arrival) -> None:
        counts, engine = self.requests_of_tier, self.engine
        if arrival.prefill_tokens + arrival.output_tokens > self._most_tokens:  # the engine will turn it away
            engine.enqueue(arrival.request, arrival.output_tokens)
            return
        if not counts[arrival.tier] or not engine.not_received:  # of later ones freeness sees neither tier nor prompt
            self._stale.add(self)
        counts[arrival.tier] += 1
        engine.enqueue(arrival.request, arrival.output_tokens)

    def advance(self, now_s: float) -> float:
        next_s = self.engine.advance(now_s)
        completed = self.engine.batch.completed
        while self.counted < len(completed):
            self.requests_of_tier[tier_of(completed[self.counted].request)] -= 1
            self.counted += 1
        self._stale.add(self)
        delay_s = next_s - now_s
        while now_s + delay_s < next_s:  # rounding must not let it be looked at an instant too early
            delay_s = math.nextafter(delay_s, math.inf)
        return delay_s

    # What rules see

    @property
    def draining(self) -> bool:
        return self._draining

    @draining.setter
    def draining(self, value: bool) -> None:
        self._draining = value
        self._stale.add(self)

    @property
    def used_blocks(self) -> int:
        return self.total_blocks - self.engine.batch.cache.free_blocks

    def head_of_line_blocks(self) -> int:
        """Of the first request in the scheduler's order; one that has only just come counts if nobody else waits."""
        tokens = self._scheduler.head_tokens() or self.engine.first_not_received()
        return -(-tokens // self.block_tokens)

    def waiting_blocks(self) -> float:
        return (self._scheduler.waiting_tokens + self.engine.tokens_not_received()) / self.block_tokens

    def waiting_requests(self) -> int:
        return len(self.engine.batch.queue) + self.engine.not_received

    def running_requests(self) -> int:
        return len(self.engine.batch.running)

    batch_size = running_requests

    def outstanding(self) -> int:
        return self.waiting_requests() + self.running_requests()

    def can_run(self, p: Progress) -> bool:
        """Is a request short enough for the KV cache?"""
        return p.request.prompt_tokens + p.output_tokens <= self._most_tokens

    def has_work(self) -> bool:
        return self.outstanding() > 0

    def has_preempted(self) -> bool:
        """Does a request wait that was preempted?"""
        progress, queue = self.engine.batch.progress, self.engine.batch.queue
        first = next(iter(queue), None)  # preempted ones are at the front
        return first is not None and progress[first].made > 0

    def next_iteration_alone_s(self, arrival: Arrival) -> float:
        tokens = arrival.prefill_tokens
        return self._time_model.iteration_s(tokens, 0, 0, tokens * tokens)

    def served_s(self, first: int) -> list[float]:
        """Seconds from admission to completion of the completed requests from number `first` on."""
        return [p.completion_s - p.admission_s for p in self.engine.batch.completed[first:]]

    # What migration does

    def decoding(self) -> Iterator[tuple[int, int, int]]:
        """(id, tier, KV tokens) of the decoding requests, in order of admission."""
        engine = self.engine
        for request_id, request in engine.batch.running.items():
            if engine.is_decoding(request_id):
                yield request_id, tier_of(request), engine.batch.kv_tokens(request_id)

    def waiting(self) -> Iterator[tuple[int, int, int]]:
        """(id, tier, tokens to prefill) of the queue."""
        progress = self.engine.batch.progress
        for request_id, request in self.engine.batch.queue.items():
            yield request_id, tier_of(request), progress[request_id].prefill_left

    def take_waiting(self, request_id: int) -> Progress:
        return self._left(self.engine.take_waiting(request_id))

    def take_decoding(self, request_id: int) -> Progress:
        return self._left(self.engine.take_decoding(request_id))

    def bring_in(self, p: Progress) -> None:
        self.requests_of_tier[tier_of(p.request)] += 1
        self._stale.add(self)
        self.engine.coming.append(p)

    def _left(self, p: Progress) -> Progress:
        self.requests_of_tier[tier_of(p.request)] -= 1
        self._stale.add(self)
        return p

"""Skip-join multi-level feedback queue after FastServe (Wu et al., 2023; NSDI 2026).

A request joins the first level whose quantum covers its prompt, counted in output tokens of equal cost, and falls a
level when it has made that level's quantum. Levels are served in order, first come first served within; a waiting
request takes the place of running ones of lower levels. Who has waited `starvation_s` moves to the top. Simplified:
FastServe offloads KV ahead of time; here a preempted request is recomputed or swapped by the replica's rule.
"""

import math
from collections import deque
from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, Action, ReplicaView, Request
from servestudy.schedulers.serving.preemptive import PreemptiveScheduler


class _Job:
    """A request's level, and the output tokens with which it leaves that."""

    __slots__ = ("ends_at", "level")

    def __init__(self, level: int, ends_at: int):
        self.level = level
        self.ends_at = ends_at


@dataclass
class MultiLevelFeedback(PreemptiveScheduler):
    first_quantum_tokens: int = 128
    levels: int = 5
    prompt_tokens_per_output_token: int = 8
    starvation_s: float = 300.0

    def reset(self) -> None:
        super().reset()
        # Each holds (level, time of the promotion, id).
        self._queues: list[deque[tuple[int, float, int]]] = [deque() for _ in range(self.levels)]
        self._lower_queues = self._queues[1:]
        self._jobs: dict[int, _Job] = {}  # of all that wait or run
        self._next_promotion_s = math.inf
        self._quanta = [self.first_quantum_tokens << level for level in range(self.levels)]

    def _level_now(self, job: _Job, made: int) -> int:
        while made >= job.ends_at and job.level < self.levels - 1:
            job.level += 1
            job.ends_at += self._quanta[job.level]
        return job.level

    def enqueue(self, view: ReplicaView) -> None:
        for request_id in view.finished:
            self._jobs.pop(request_id, None)
        super().enqueue(view)

    def _promote(self, view: ReplicaView) -> None:
        for queue in self._lower_queues:
            while queue and queue[0][1] <= view.time_s:
                request_id = queue.popleft()[2]
                self._jobs[request_id] = _Job(0, view.tokens_made(request_id) + self._quanta[0])
                self._queues[0].append((0, math.inf, request_id))

    def push(self, request: Request, view: ReplicaView) -> None:
        request_id = request.request_id
        job = self._jobs.get(request_id)
        if job is None:
            equal_tokens = request.prompt_tokens / self.prompt_tokens_per_output_token
            level = 0
            while level < self.levels - 1 and self._quanta[level] < equal_tokens:
                level += 1
            self._jobs[request_id] = _Job(level, self._quanta[level])
        else:
            level = self._level_now(job, view.tokens_made(request_id))
        promoted_at_s = view.time_s + self.starvation_s if level else math.inf
        self._queues[level].append((level, promoted_at_s, request_id))

    def head(self) -> tuple[int, float, int] | None:
        for queue in self._queues:
            if queue:
                return queue[0]
        return None

    def pop(self) -> None:
        for queue in self._queues:
            if queue:
                queue.popleft()
                return

    def review(self, request: Request, view: ReplicaView) -> tuple[tuple, float]:
        """The lowest level is asked first, in it the last to arrive."""
        job, made = self._jobs[request.request_id], view.tokens_made(request.request_id)
        level = self._level_now(job, made)
        return (-level, -request.arrival_s), job.ends_at - made if level < self.levels - 1 else UNTIL_EVENT

    def tokens_to_yield(self, request: Request, view: ReplicaView, key: int) -> int:
        return 0 if self._jobs[request.request_id].level > key else UNTIL_EVENT

    def stands_until_s(self, view: ReplicaView) -> float:
        self._next_promotion_s = math.inf
        for queue in self._lower_queues:
            if queue and queue[0][1] < self._next_promotion_s:
                self._next_promotion_s = queue[0][1]
        return self._next_promotion_s

    def decide(self, view: ReplicaView) -> Action:
        if self._next_promotion_s <= view.time_s:
            self._promote(view)
        return super().decide(view)

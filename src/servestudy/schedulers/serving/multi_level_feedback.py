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


@dataclass
class MultiLevelFeedback(PreemptiveScheduler):
    first_quantum_tokens: int = 128
    levels: int = 5
    prompt_tokens_per_output_token: int = 8
    starvation_s: float = 300.0

    def reset(self) -> None:
        super().reset()
        self._queues: list[deque[tuple[int, float, int]]] = [
            deque() for _ in range(self.levels)
        ]  # (level, promotion, id)
        self._level: dict[int, int] = {}
        self._level_ends_at: dict[int, int] = {}  # output tokens with which a request leaves its level

    def _quantum(self, level: int) -> int:
        return self.first_quantum_tokens << level

    def _enter(self, request_id: int, level: int, made: int) -> None:
        self._level[request_id] = level
        self._level_ends_at[request_id] = made + self._quantum(level)

    def _level_now(self, request_id: int, view: ReplicaView) -> int:
        level = self._level[request_id]
        made = view.tokens_made(request_id)
        while level < self.levels - 1 and made >= self._level_ends_at[request_id]:
            level += 1
            self._enter(request_id, level, self._level_ends_at[request_id])
        return level

    def enqueue(self, view: ReplicaView) -> None:
        for request_id in view.finished:
            self._level.pop(request_id, None)
            self._level_ends_at.pop(request_id, None)
        super().enqueue(view)
        for queue in self._queues[1:]:
            while queue and queue[0][1] <= view.time_s:
                _, _, request_id = queue.popleft()
                self._enter(request_id, 0, view.tokens_made(request_id))
                self._queues[0].append((0, math.inf, request_id))

    def push(self, request: Request, view: ReplicaView) -> None:
        request_id = request.request_id
        if request_id not in self._level:
            equal_tokens = request.prompt_tokens / self.prompt_tokens_per_output_token
            covering = (level for level in range(self.levels) if self._quantum(level) >= equal_tokens)
            self._enter(request_id, next(covering, self.levels - 1), 0)
        level = self._level_now(request_id, view)
        promoted_at_s = view.time_s + self.starvation_s if level else math.inf
        self._queues[level].append((level, promoted_at_s, request_id))

    def head(self) -> tuple[int, float, int] | None:
        for queue in self._queues:
            if queue:
                return queue[0]
        return None

    def pop(self) -> None:
        next(queue for queue in self._queues if queue).popleft()

    def review(self, request: Request, view: ReplicaView) -> tuple[tuple, float]:
        """The lowest level is asked first, in it the last to arrive."""
        level = self._level_now(request.request_id, view)
        level_left = self._level_ends_at[request.request_id] - view.tokens_made(request.request_id)
        return (-level, -request.arrival_s), level_left if level < self.levels - 1 else UNTIL_EVENT

    def tokens_to_yield(self, request: Request, view: ReplicaView, key: int) -> int:
        return 0 if self._level[request.request_id] > key else UNTIL_EVENT

    def decide(self, view: ReplicaView) -> Action:
        action = super().decide(view)
        next_promotion_s = min((queue[0][1] for queue in self._queues[1:] if queue), default=math.inf)
        return action._replace(valid_until_s=next_promotion_s)

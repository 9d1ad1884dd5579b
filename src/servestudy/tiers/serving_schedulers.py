"""Replica schedulers of the tiers study on the serving engine that the other study does not have."""

import math
from dataclasses import dataclass
from heapq import heappop, heappush

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import OrderedScheduler
from servestudy.schedulers.serving.room import Room


def tier_of(request: Request) -> int:
    """The class of a request is its tier."""
    return int(request.class_id)


@dataclass
class TierScheduler(OrderedScheduler):
    """Admit by tier, within a tier by arrival; decodes and prefills in one batch. The last in that order is preempted.

    aging_s: a request is served as if each tier were that much later an arrival, so that none waits for ever for those
    above it; inf: strict tiers. by_tier off: first come first served.
    Requests may leave the queue without being admitted: `finished` names them.
    """

    by_tier: bool = True
    aging_s: float = math.inf
    chunked_prefill: bool = True

    def key(self, request: Request, view: ReplicaView | None = None) -> float:
        if not self.by_tier:
            return 0.0
        tier = tier_of(request)
        return tier if math.isinf(self.aging_s) else request.arrival_s + self.aging_s * tier

    def reset(self) -> None:
        super().reset()
        self._tokens: dict[int, int] = {}  # to prefill, of those that wait; other entries of the heap are stale
        self.waiting_tokens = 0

    def enqueue(self, view: ReplicaView) -> None:
        for request_id in view.finished:
            self.waiting_tokens -= self._tokens.pop(request_id, 0)
        super().enqueue(view)

    def push(self, request: Request, view: ReplicaView) -> None:
        request_id, arrival_s = request[:2]
        heappush(self._waiting, (self.key(request), arrival_s, request_id))
        self._tokens[request_id] = tokens = view.prefill_left(request_id)
        self.waiting_tokens += tokens

    def head(self) -> tuple[float, float, int] | None:
        waiting, tokens = self._waiting, self._tokens
        while waiting and waiting[0][2] not in tokens:
            heappop(waiting)
        return waiting[0] if waiting else None

    def decide(self, view: ReplicaView) -> Action:
        """As OrderedScheduler does, in one loop: the cluster asks often."""
        self.enqueue(view)
        tokens_of = self._tokens
        if not tokens_of:
            return WAIT
        room = Room(view)
        while room.is_open() and (head := self.head()) and room.take(head[2], tokens_of[head[2]]):
            heappop(self._waiting)
            self.waiting_tokens -= tokens_of.pop(head[2])
        return Action(room.admitted, valid_steps=room.valid_steps() if tokens_of else UNTIL_EVENT)

    def head_tokens(self) -> int:
        """Tokens that the first in the queue has to prefill; 0 if nobody waits."""
        return self._tokens[self.head()[2]] if self._tokens else 0

    def victim(self, running: list[Request]) -> int:
        return max(running, key=lambda request: (self.key(request), request.arrival_s, request.request_id)).request_id


class Llumnix24(TierScheduler):
    """OSDI'24 Llumnix: tier 0 is high priority and waits ahead of all others; the last admitted is preempted."""

    def key(self, request: Request, view: ReplicaView | None = None) -> float:
        return float(tier_of(request) > 0)

    def victim(self, running: list[Request]) -> int:
        return running[-1].request_id

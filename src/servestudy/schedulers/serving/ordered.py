"""Base classes: admit waiting requests in the order of a key that does not change while they wait."""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request, Scheduler
from servestudy.schedulers.serving.room import Room


class OrderedScheduler(Scheduler):
    """Admit in ascending order of (key, arrival, id). The first that does not fit closes the queue.

    So no request is passed over for ever because smaller ones keep filling the room that it needs.
    """

    def key(self, request: Request, view: ReplicaView) -> Any:
        """Order among waiting requests, called when a request joins the queue."""
        raise NotImplementedError

    def reset(self) -> None:
        self._waiting: list[tuple[Any, float, int]] = []  # a heap

    def enqueue(self, view: ReplicaView) -> None:
        """Take in who joined the queue since the last decision, and forget who is gone."""
        for request in view.joined:
            self.push(request, view)

    def push(self, request: Request, view: ReplicaView) -> None:
        heappush(self._waiting, (self.key(request, view), request.arrival_s, request.request_id))

    def head(self) -> tuple[Any, float, int] | None:
        """(key, arrival, id) of the first in order."""
        return self._waiting[0] if self._waiting else None

    def pop(self) -> None:
        """Remove the first in order."""
        heappop(self._waiting)

    def take(self, room: Room, request_id: int, view: ReplicaView) -> bool:
        """Admit the first in order if it may be; return whether it was. If not, nobody is until the next event."""
        return room.take(request_id, view.prefill_left(request_id))

    def admit_in_order(self, room: Room, view: ReplicaView) -> tuple[Any, float, int] | None:
        """Admit while there is room; return the first that is left in the queue."""
        while (head := self.head()) and room.is_open() and self.take(room, head[2], view):
            self.pop()
        return head

    def decide(self, view: ReplicaView) -> Action:
        self.enqueue(view)
        if not self._waiting:
            return WAIT
        room = Room(view)
        self.admit_in_order(room, view)
        return Action(room.admitted, valid_steps=room.valid_steps() if self._waiting else UNTIL_EVENT)


def remaining_output_tokens(request: Request, view: ReplicaView) -> int:
    """Predicted output tokens still to make. A request that outlives its prediction is taken to be about to end."""
    return max(1, request.predicted_output_tokens - view.tokens_made(request.request_id))


def positive_weight(request: Request) -> float:
    """The weight; one that is not positive counts as 1, as in the metrics."""
    return request.weight if request.weight > 0 else 1.0


@dataclass
class EstimatingScheduler(OrderedScheduler):
    """Knows how long tokens take: by default on an A100 with Llama-2-7B, in a batch of some 30 requests."""

    prompt_token_s: float = 70e-6
    output_token_s: float = 0.02

    def service_s(self, request: Request, view: ReplicaView) -> float:
        """Estimated seconds of service that the request still needs."""
        return self.prompt_token_s * view.prefill_left(
            request.request_id
        ) + self.output_token_s * remaining_output_tokens(request, view)

    def latest_start_s(self, request: Request, view: ReplicaView) -> float:
        """When service must begin to meet the deadline: laxity plus the present time, so it stands while one waits."""
        return request.deadline_s - self.service_s(request, view)


class LastArrivedIsVictim(Scheduler):
    """vLLM and Sarathi-Serve preempt the running request that arrived last."""

    def victim(self, running: list[Request]) -> int:
        return max(running, key=lambda request: (request.arrival_s, request.request_id)).request_id

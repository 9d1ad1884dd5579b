"""Weighted fair share over request classes: demand over service received, weighted, per unit of estimated work.

All requests of the published campaign are of one class, so the shares cancel and the order is shortest estimated
service first, ties by arrival.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import merge

from servestudy.schedulers.protocol import Action, ReplicaView, Request
from servestudy.schedulers.published.estimates import STEPS_PER_PROMPT_TOKEN, service_steps
from servestudy.schedulers.published.greedy import GreedyScheduler
from servestudy.schedulers.published.sorted_queue import SortedQueue


@dataclass
class WeightedFairShare(GreedyScheduler):
    steps_per_prompt_token: float = STEPS_PER_PROMPT_TOKEN

    def reset(self) -> None:
        # Within a class and weight the order does not depend on the shares.
        self._queues: dict[tuple[str, float], SortedQueue] = {}
        self._kind: dict[int, tuple[str, float]] = {}

    def order_in_class(self, request: Request) -> tuple:
        """Key among requests of one class and weight: shortest first, longest first if the weight is negative."""
        sign = (request.weight > 0) - (request.weight < 0)
        service = service_steps(request, self.steps_per_prompt_token)
        return (sign * service, request.arrival_s, request.request_id)

    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        if len(self._queues) == 1:
            return next(iter(self._queues.values()))
        demand: Counter[str] = Counter()
        for (class_id, _), queue in self._queues.items():
            demand[class_id] += len(queue)
        served = Counter(request.class_id for request in view.running)

        def key(request: Request) -> tuple:
            share = demand[request.class_id] / max(1, served[request.class_id] + 1)
            score = share * request.weight / max(service_steps(request, self.steps_per_prompt_token), 1e-9)
            return (-score, request.arrival_s, request.request_id)

        return merge(*self._queues.values(), key=key)

    def decide(self, view: ReplicaView) -> Action:
        for request in view.joined:
            kind = self._kind[request.request_id] = (request.class_id, request.weight)
            self._queues.setdefault(kind, SortedQueue(self.order_in_class)).add([request])
        action = super().decide(view)
        for request_id in action.admit:
            self._queues[self._kind.pop(request_id)].remove([request_id])
        return action

"""Weighted fair share over request classes: demand over service received, weighted, per unit of estimated work.

All requests of the published campaign are of one class, so the shares cancel and the order is shortest estimated
service first, ties by arrival.
"""

from collections import Counter
from collections.abc import Iterable

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.published.estimates import service_steps
from servestudy.schedulers.published.greedy import GreedyScheduler


class WeightedFairShare(GreedyScheduler):
    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        waiting = view.waiting
        demand = Counter(request.class_id for request in waiting)
        served = Counter(request.class_id for request in view.running)

        def key(request: Request) -> tuple:
            share = demand[request.class_id] / max(1, served[request.class_id] + 1)
            score = share * request.weight / max(service_steps(request), 1e-9)
            return (-score, request.arrival_s, request.request_id)

        return sorted(waiting, key=key)

"""Least laxity first, with the published mix of units.

The key subtracts an estimate in *steps* (tens to thousands) from a time in *seconds* (far below 10), so in effect
the longest job runs first. Reproduced as published.
"""

from collections.abc import Iterable

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.published.estimates import service_steps
from servestudy.schedulers.published.greedy import GreedyScheduler


class LeastLaxityFirst(GreedyScheduler):
    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        now = view.time_s

        def key(request: Request) -> tuple:
            laxity = (request.deadline_s - now) - service_steps(request)
            return (laxity, request.deadline_s, -request.weight, request.request_id)

        return sorted(view.waiting, key=key)

"""Least laxity first in true seconds.

The published scheduler has a laxity threshold below which a request would be turned away, but its default is off:
it filters nothing, and what is left is this order.
"""

from collections.abc import Iterable

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.published.estimates import STEP_S, laxity_s, service_steps
from servestudy.schedulers.published.greedy import GreedyScheduler


class AdmissionControl(GreedyScheduler):
    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        now = view.time_s

        def key(request: Request) -> tuple:
            service_s = service_steps(request) * STEP_S
            return (laxity_s(request, now), -request.weight, service_s, request.deadline_s, request.request_id)

        return sorted(view.waiting, key=key)

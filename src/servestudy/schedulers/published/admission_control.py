"""Least laxity first in true seconds.

The published scheduler has a laxity threshold below which a request would be turned away, but its default is off: it
filters nothing, and what is left is this order.
"""

from collections.abc import Callable

from servestudy.schedulers.protocol import Request
from servestudy.schedulers.published.estimates import STEP_S
from servestudy.schedulers.published.greedy import TimedOrderScheduler


class AdmissionControl(TimedOrderScheduler):
    def key_at(self, now_s: float) -> Callable[[tuple[Request, float]], tuple]:
        def key(entry: tuple[Request, float]) -> tuple:
            request, service_steps = entry
            service_s = service_steps * STEP_S
            laxity_s = (request.deadline_s - now_s) - service_s
            return (laxity_s, -request.weight, service_s, request.deadline_s, request.request_id)

        return key

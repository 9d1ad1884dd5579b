"""Least laxity first in true seconds.

The published scheduler has a laxity threshold below which a request would be turned away, but its default is off: it
filters nothing, and what is left is this order. With a threshold, a request below it is passed over for ever, as laxity
only falls.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.published.estimates import STEP_S, laxity_s
from servestudy.schedulers.published.greedy import TimedOrderScheduler


@dataclass
class AdmissionControl(TimedOrderScheduler):
    min_laxity_s: float = -math.inf

    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        in_order = super().ordered(view)
        if self.min_laxity_s == -math.inf:
            return in_order
        now, per_prompt_token = view.time_s, self.steps_per_prompt_token
        return [request for request in in_order if laxity_s(request, now, per_prompt_token) >= self.min_laxity_s]

    def key_at(self, now_s: float) -> Callable[[tuple[Request, float]], tuple]:
        def key(entry: tuple[Request, float]) -> tuple:
            request, service_steps = entry
            service_s = service_steps * STEP_S
            laxity = (request.deadline_s - now_s) - service_s
            return (laxity, -request.weight, service_s, request.deadline_s, request.request_id)

        return key

"""Least laxity first, with the published mix of units.

The key subtracts an estimate in *steps* (tens to thousands) from a time in *seconds* (far below 10), so in effect the
longest job runs first. Reproduced as published; the audit's `laxity_units` puts both in seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from servestudy.schedulers.protocol import Request
from servestudy.schedulers.published.greedy import TimedOrderScheduler


@dataclass
class LeastLaxityFirst(TimedOrderScheduler):
    step_counts_as_s: float = 1.0

    def key_at(self, now_s: float) -> Callable[[tuple[Request, float]], tuple]:
        step_s = self.step_counts_as_s

        def key(entry: tuple[Request, float]) -> tuple:
            request, service_steps = entry
            laxity = (request.deadline_s - now_s) - service_steps * step_s
            return (laxity, request.deadline_s, -request.weight, request.request_id)

        return key

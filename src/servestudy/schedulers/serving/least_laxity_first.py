"""Least laxity first (Mok, 1983) as an admission order: deadline less estimated service, both in seconds.

Laxities of waiting requests shrink alike, so their order stands while they wait.
"""

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.serving.ordered import EstimatingScheduler


class LeastLaxityFirst(EstimatingScheduler):
    def key(self, request: Request, view: ReplicaView) -> float:
        return self.latest_start_s(request, view)

"""Shortest estimated service first, by prompt and predicted output tokens; nobody is preempted for it.

Long requests may wait for ever under overload, as in shortest job first.
"""

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.serving.ordered import EstimatingScheduler


class EstimatedServiceTimeFirst(EstimatingScheduler):
    def key(self, request: Request, view: ReplicaView) -> float:
        return self.service_s(request, view)

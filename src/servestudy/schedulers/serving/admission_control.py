"""Least laxity first that turns away what can no longer meet its deadline."""

from dataclasses import dataclass

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.serving.rejecting import RejectingScheduler


@dataclass
class AdmissionControl(RejectingScheduler):
    """A request is rejected when its laxity, deadline less now less estimated service, is down to `min_laxity_s`."""

    min_laxity_s: float = 0.0

    def hopeless_at_s(self, request: Request, view: ReplicaView) -> float:
        return self.latest_start_s(request, view) - self.min_laxity_s

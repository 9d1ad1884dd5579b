"""Earliest deadline first (Liu and Layland, 1973) as an admission order; nobody is preempted for it."""

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.serving.ordered import OrderedScheduler


class Edf(OrderedScheduler):
    def key(self, request: Request, view: ReplicaView) -> float:
        return request.deadline_s

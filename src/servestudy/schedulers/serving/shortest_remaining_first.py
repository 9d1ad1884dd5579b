"""Shortest remaining processing time (Schrage and Miller, 1966) on predicted lengths, with preemption.

A waiting request takes the place of a running one that needs more than `preemption_gain` times its remaining service:
a margin for what a preemption costs. A request that outlives its prediction counts as about to end and keeps running.
"""

from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, ReplicaView, Request
from servestudy.schedulers.serving.ordered import EstimatingScheduler
from servestudy.schedulers.serving.preemptive import PreemptiveScheduler


@dataclass
class ShortestRemainingFirst(PreemptiveScheduler, EstimatingScheduler):
    preemption_gain: float = 4.0

    def key(self, request: Request, view: ReplicaView) -> float:
        return self.service_s(request, view)

    def review(self, request: Request, view: ReplicaView) -> tuple[tuple, float]:
        """Who is predicted to decode longest is asked first. All make a token an iteration: the order stands."""
        last_step = view.step + request.predicted_output_tokens - view.tokens_made(request.request_id)
        return (-last_step, -request.arrival_s), UNTIL_EVENT

    def tokens_to_yield(self, request: Request, view: ReplicaView, key: float) -> int:
        """Remaining service only shrinks while a request runs: who need not yield now never has to."""
        return 0 if self.service_s(request, view) > self.preemption_gain * key else UNTIL_EVENT

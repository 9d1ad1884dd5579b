"""Least attained service (foreground-background; Kleinrock, 1976), counted in output tokens; no deadline, no
prediction.

The waiting request that has made the fewest tokens goes first. It takes the place of a running one that has made a
quantum more than it, and a quantum since its last admission: without these, each arrival would cost a preemption.
"""

from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, ReplicaView, Request
from servestudy.schedulers.serving.preemptive import PreemptiveScheduler


@dataclass
class LeastAttainedService(PreemptiveScheduler):
    quantum_tokens: int = 128

    def reset(self) -> None:
        super().reset()
        self._made_at_admission: dict[int, int] = {}

    def key(self, request: Request, view: ReplicaView) -> int:
        made = self._made_at_admission[request.request_id] = view.tokens_made(request.request_id)
        return made

    def review(self, request: Request, view: ReplicaView) -> tuple[tuple | None, float]:
        """After its quantum a request is asked, the most tokens first. All make one an iteration: the order stands."""
        made = view.tokens_made(request.request_id)
        quantum_left = self._made_at_admission[request.request_id] + self.quantum_tokens - made
        if quantum_left > 0:
            return None, quantum_left
        return (view.step - made, -request.arrival_s), UNTIL_EVENT

    def tokens_to_yield(self, request: Request, view: ReplicaView, key: int) -> int:
        return key + self.quantum_tokens - view.tokens_made(request.request_id)

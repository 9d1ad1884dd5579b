"""SLO guard inspired by Scorpio (Tang et al., 2025, arXiv 2505.23022): a TTFT guard and a TBT guard.

TTFT guard: least deadline first; a request that can no longer make its first token in time is rejected. Without a
TTFT target the time that its deadline leaves for the first token counts. TBT guard: a running request takes credit by
its TBT target, 1 for the tightest and less for looser ones; a new one is deferred while the sum, the virtual batch
size, would make iterations longer than the tightest target. Simplified: iteration time is linear in that size, and
the looser requests are not held back in single iterations as Scorpio's credit-based batching does.
"""

import math
from collections import Counter
from dataclasses import dataclass

from servestudy.schedulers.protocol import Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import remaining_output_tokens
from servestudy.schedulers.serving.rejecting import RejectingScheduler
from servestudy.schedulers.serving.room import Room


@dataclass
class ScorpioStyleSloGuard(RejectingScheduler):
    iteration_s: float = 0.012
    iteration_s_per_request: float = 0.0005

    def reset(self) -> None:
        super().reset()
        self._tbt_target_s: dict[int, float] = {}
        self._running: set[int] = set()
        self._running_per_target: Counter[float] = Counter()

    def hopeless_at_s(self, request: Request, view: ReplicaView) -> float:
        first_token_s = request.ttft_deadline_s
        if math.isinf(first_token_s):
            first_token_s = request.deadline_s - self.output_token_s * remaining_output_tokens(request, view)
        return first_token_s - self.prompt_token_s * request.prompt_tokens

    def take(self, room: Room, request_id: int, view: ReplicaView) -> bool:
        target_s = self._tbt_target_s[request_id]
        if not self._has_credit(target_s) or not super().take(room, request_id, view):
            return False
        self._running.add(request_id)
        self._running_per_target[target_s] += 1
        return True

    def _has_credit(self, target_s: float) -> bool:
        """One request may always run."""
        running = self._running_per_target
        tightest_s = min((target_s, *running))
        if math.isinf(tightest_s) or not running:
            return True
        virtual_batch = tightest_s / target_s + sum(tightest_s / other_s * n for other_s, n in running.items())
        return self.iteration_s + self.iteration_s_per_request * virtual_batch <= tightest_s

    def _leave(self, request_id: int) -> None:
        if request_id in self._running:
            self._running.remove(request_id)
            target_s = self._tbt_target_s[request_id]
            self._running_per_target[target_s] -= 1
            if not self._running_per_target[target_s]:
                del self._running_per_target[target_s]

    def decide(self, view: ReplicaView) -> Action:
        for request_id in view.finished:
            self._leave(request_id)
            self._tbt_target_s.pop(request_id, None)
        for request in view.joined:
            self._leave(request.request_id)  # preempted
            self._tbt_target_s[request.request_id] = request.tbt_target_s
        return super().decide(view)

"""KV-aware online admission after Jaillet et al. (2025, "Online Scheduling for LLM Inference with KV Cache
Constraints").

Smallest predicted KV footprint over weight first, while the predicted footprints of all running requests stay under a
target. A request whose laxity is nearly used up goes first, least laxity first, and may exceed the target but never
the blocks that are free. Simplified: footprints count at their full predicted size from the start, where the paper
follows them over time. A request that outlives its prediction keeps its reserved size.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import EstimatingScheduler, positive_weight, remaining_output_tokens
from servestudy.schedulers.serving.room import Room


@dataclass
class KvConstrainedOnline(EstimatingScheduler):
    kv_target: float = 0.9
    urgent_laxity_s: float = 1.0

    def reset(self) -> None:
        super().reset()
        self._calm: dict[int, tuple] = {}  # id -> entry in the queue by footprint; other entries there are stale
        self._turns_urgent: list[
            tuple[float, float, int]
        ] = []  # a heap of (when, arrival, id); may hold stale ones too
        self._urgent: list[tuple[float, float, int]] = []  # a heap of the same
        self._footprint: dict[int, int] = {}
        self._reserved: dict[int, int] = {}  # footprints of the running requests
        self._reserved_tokens = 0

    def enqueue(self, view: ReplicaView) -> None:
        for request_id in view.finished:
            self._reserved_tokens -= self._reserved.pop(request_id, 0)
            self._footprint.pop(request_id, None)
        for request in view.joined:
            self._reserved_tokens -= self._reserved.pop(request.request_id, 0)  # preempted
        super().enqueue(view)

    def push(self, request: Request, view: ReplicaView) -> None:
        request_id, arrival_s = request.request_id, request.arrival_s
        footprint = view.prefill_left(request_id) + remaining_output_tokens(request, view)
        self._footprint[request_id] = footprint
        self._calm[request_id] = entry = (footprint / positive_weight(request), arrival_s, request_id)
        heappush(self._waiting, entry)
        urgent_at_s = self.latest_start_s(request, view) - self.urgent_laxity_s
        heappush(self._turns_urgent, (urgent_at_s, arrival_s, request_id))

    def _next_urgent_s(self, now_s: float) -> float:
        """Move who has become urgent; return when the next one will."""
        turns_urgent = self._turns_urgent
        while turns_urgent and (turns_urgent[0][0] <= now_s or turns_urgent[0][2] not in self._calm):
            entry = heappop(turns_urgent)
            if self._calm.pop(entry[2], None):
                heappush(self._urgent, entry)
        return turns_urgent[0][0] if turns_urgent else float("inf")

    def head(self) -> tuple | None:
        if self._urgent:
            return self._urgent[0]
        while self._waiting and self._calm.get(self._waiting[0][2]) is not self._waiting[0]:
            heappop(self._waiting)
        return super().head()

    def pop(self) -> None:
        if self._urgent:
            heappop(self._urgent)
        else:
            del self._calm[self._waiting[0][2]]
            super().pop()

    def take(self, room: Room, request_id: int, view: ReplicaView) -> bool:
        footprint = self._footprint[request_id]
        within_target = self._reserved_tokens + footprint <= self.kv_target * view.limits.max_kv_tokens
        if not (within_target or self._urgent or not self._reserved) or not super().take(room, request_id, view):
            return False
        self._reserved[request_id] = footprint
        self._reserved_tokens += footprint
        return True

    def decide(self, view: ReplicaView) -> Action:
        self.enqueue(view)
        if not view.waiting_count:
            return WAIT
        self._next_urgent_s(view.time_s)
        room = Room(view)
        self.admit_in_order(room, view)
        if len(room.admitted) == view.waiting_count:
            return Action(room.admitted, valid_steps=UNTIL_EVENT)
        next_urgent_s = self._next_urgent_s(view.time_s)
        return Action(room.admitted, valid_steps=room.valid_steps(), valid_until_s=next_urgent_s)

"""Base class of schedulers with a token budget of their own, smaller than the replica's."""

from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, ReplicaView
from servestudy.schedulers.serving.ordered import LastArrivedIsVictim, OrderedScheduler
from servestudy.schedulers.serving.room import Room


@dataclass
class ChunkedScheduler(LastArrivedIsVictim, OrderedScheduler):
    token_budget: int = 512

    def reset(self) -> None:
        super().reset()
        self._prefilling: list[int] = []  # in admission order

    def enqueue(self, view: ReplicaView) -> None:
        super().enqueue(view)
        if self._prefilling:
            gone = {request.request_id for request in view.joined}.union(view.finished)
            self._prefilling = [i for i in self._prefilling if i not in gone and view.prefill_left(i)]

    def take(self, room: Room, request_id: int, view: ReplicaView) -> bool:
        if not super().take(room, request_id, view):
            return False
        self._prefilling.append(request_id)
        return True

    def chunks(self, view: ReplicaView, budget: int) -> tuple[dict[int, int], int]:
        """Share the budget among the prefilling requests, first come first served.

        Returns the tokens of each, and for how many iterations the share stands: while the first takes it all.
        """
        if not self._prefilling or budget <= 0:
            return {}, UNTIL_EVENT
        valid_steps = max(1, view.prefill_left(self._prefilling[0]) // budget)
        share = {}
        for request_id in self._prefilling:
            if budget <= 0:
                break
            share[request_id] = min(budget, view.prefill_left(request_id))
            budget -= share[request_id]
        return share, valid_steps

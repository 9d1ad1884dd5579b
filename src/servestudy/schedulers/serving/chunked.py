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
        self._prefilled: list[int] = []  # who ended its prefill in the last iteration and goes on

    def enqueue(self, view: ReplicaView) -> None:
        super().enqueue(view)
        if self._prefilling:
            gone = {request.request_id for request in view.joined}.union(view.finished)
            self._prefilling = [request_id for request_id in self._prefilling if request_id not in gone]

    def follow(self, view: ReplicaView) -> None:
        """See who has ended its prefill; to be called in each decision."""
        if view.joined or view.finished:
            self.enqueue(view)
        prefilling, self._prefilling, self._prefilled = self._prefilling, [], []
        for request_id in prefilling:
            (self._prefilling if view.prefill_left(request_id) else self._prefilled).append(request_id)

    def take(self, room: Room, request_id: int, view: ReplicaView) -> bool:
        if not super().take(room, request_id, view):
            return False
        self._prefilling.append(request_id)
        return True

    def chunks(self, view: ReplicaView, budget: int) -> tuple[dict[int, int], int]:
        """Share the budget among the prefilling requests, first come first served.

        Returns the tokens of each, and for how many iterations the share stands: while the first takes it all.
        """
        share: dict[int, int] = {}
        if not self._prefilling or budget <= 0:
            return share, UNTIL_EVENT
        valid_steps = 1
        for request_id in self._prefilling:
            left = view.prefill_left(request_id)
            if left >= budget:
                share[request_id] = budget
                if len(share) == 1:
                    valid_steps = left // budget
                break
            share[request_id] = left
            budget -= left
        return share, valid_steps

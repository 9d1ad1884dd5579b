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
        self._prefilling: dict[int, int] = {}  # tokens left by id, in admission order
        self._prefilled: list[int] = []  # who ended its prefill in the last iteration and goes on

    def enqueue(self, view: ReplicaView) -> None:
        super().enqueue(view)
        if self._prefilling:
            for request in view.joined:
                self._prefilling.pop(request.request_id, None)  # preempted
            for request_id in view.finished:
                self._prefilling.pop(request_id, None)

    def follow(self, view: ReplicaView) -> None:
        """See who has ended its prefill; to be called in each decision."""
        if view.joined or view.finished:
            self.enqueue(view)
        prefilling = self._prefilling
        self._prefilled = []
        for request_id in prefilling:
            left = prefilling[request_id] = view.prefill_left(request_id)
            if not left:
                self._prefilled.append(request_id)
        for request_id in self._prefilled:
            del prefilling[request_id]

    def take(self, room: Room, request_id: int, view: ReplicaView) -> bool:
        tokens = view.prefill_left(request_id)
        if not room.take(request_id, tokens):
            return False
        self._prefilling[request_id] = tokens
        return True

    def chunks(self, budget: int) -> tuple[dict[int, int], int]:
        """Share the budget among the prefilling requests, first come first served.

        Returns the tokens of each, and for how many iterations the share stands: while the first takes it all.
        """
        share: dict[int, int] = {}
        if not self._prefilling or budget <= 0:
            return share, UNTIL_EVENT
        valid_steps = 1
        for request_id, left in self._prefilling.items():
            if left >= budget:
                share[request_id] = budget
                if len(share) == 1:
                    valid_steps = left // budget
                break
            share[request_id] = left
            budget -= left
        return share, valid_steps

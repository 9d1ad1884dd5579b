"""Sarathi-Serve (Agrawal et al., OSDI 2024): stall-free batches of at most 512 tokens, first come first served.

Decodes first; what they leave of the budget goes to prefills under way, then to new ones. The last to arrive is
preempted.
"""

from servestudy.schedulers.protocol import WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.chunked import ChunkedScheduler
from servestudy.schedulers.serving.room import Room


class SarathiFaithful(ChunkedScheduler):
    def key(self, request: Request, view: ReplicaView) -> int:
        return 0

    def decide(self, view: ReplicaView) -> Action:
        self.follow(view)
        if not self._waiting and not self._prefilling:
            return WAIT
        budget = self.token_budget - view.decoding_count
        room = Room(view, budget)
        self.admit_in_order(room, view)
        prefill, valid_steps = self.chunks(budget)
        if self._waiting:
            valid_steps = min(valid_steps, room.valid_steps())
        return Action(room.admitted, valid_steps=valid_steps, prefill=prefill)

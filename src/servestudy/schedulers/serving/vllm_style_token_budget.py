"""Shortest predicted output first, whole prompts within the token budget: a proxy inspired by vLLM.

A prompt is admitted if all of it fits into what the decodes and the prefills under way leave of the iteration's
budget. One that is longer than that is admitted when no other prefill is under way, and then goes in chunks. Long
outputs may wait for ever under overload.
"""

from heapq import heappop

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import OrderedScheduler, remaining_output_tokens
from servestudy.schedulers.serving.room import Room


class VllmStyleTokenBudget(OrderedScheduler):
    def key(self, request: Request, view: ReplicaView) -> int:
        return remaining_output_tokens(request, view)

    def decide(self, view: ReplicaView) -> Action:
        self.enqueue(view)
        waiting = self._waiting
        if not waiting:
            return WAIT
        room = Room(view)
        while waiting and room.is_open():
            request_id = waiting[0][2]
            tokens = view.prefill_left(request_id)
            if (room.backlog and room.backlog + tokens > room.tokens) or not room.take(request_id, tokens):
                break
            heappop(waiting)
        # The backlog shrinks in each iteration and may then leave budget for the next whole prompt.
        return Action(room.admitted, valid_steps=1 if waiting and room.backlog else UNTIL_EVENT)

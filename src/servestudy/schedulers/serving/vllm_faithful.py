"""vLLM V0 (0.6 and before, default settings): first come first served, prefill first, whole prompts.

Prompts fill an iteration up to `max_num_batched_tokens` while decodes wait. A longer prompt runs alone: real vLLM
turns it away unless its limit is raised to the model length. The last to arrive is preempted, and goes back in order
of arrival.
"""

from heapq import heappop

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import LastArrivedIsVictim, OrderedScheduler
from servestudy.schedulers.serving.room import Room


class VllmFaithful(LastArrivedIsVictim, OrderedScheduler):
    prefill_first = True
    chunked_prefill = False

    def key(self, request: Request, view: ReplicaView) -> int:
        return 0

    def decide(self, view: ReplicaView) -> Action:
        self.enqueue(view)
        waiting = self._waiting
        if not waiting:
            return WAIT
        room = Room(view, tokens=view.limits.max_num_batched_tokens)
        while waiting:
            request_id = waiting[0][2]
            tokens = view.prefill_left(request_id)
            if (room.backlog and room.backlog + tokens > room.tokens) or not room.take(request_id, tokens):
                break
            heappop(waiting)
        return Action(room.admitted, valid_steps=1 if waiting and room.backlog else UNTIL_EVENT)

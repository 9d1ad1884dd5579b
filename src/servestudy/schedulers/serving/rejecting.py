"""Base class of schedulers that turn requests away."""

import math

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import EstimatingScheduler
from servestudy.schedulers.serving.room import Room


class RejectingScheduler(EstimatingScheduler):
    """The order is the moment at which a request becomes hopeless; at that moment it is rejected.

    One that was preempted after its first token is never turned away and goes first.
    """

    def hopeless_at_s(self, request: Request, view: ReplicaView) -> float:
        raise NotImplementedError

    def key(self, request: Request, view: ReplicaView) -> float:
        return -math.inf if view.tokens_made(request.request_id) else self.hopeless_at_s(request, view)

    def decide(self, view: ReplicaView) -> Action:
        self.enqueue(view)
        if not self._waiting:
            return WAIT
        now = view.time_s
        room = Room(view)
        reject = []
        while head := self.head():
            hopeless_at_s, _, request_id = head
            if -math.inf < hopeless_at_s <= now:
                reject.append(request_id)
            elif not (room.is_open() and self.take(room, request_id, view)):
                break
            self.pop()
        if head is None:
            return Action(room.admitted, reject=reject, valid_steps=UNTIL_EVENT)
        until_s = hopeless_at_s if hopeless_at_s > now else math.inf
        return Action(room.admitted, reject=reject, valid_steps=room.valid_steps(), valid_until_s=until_s)

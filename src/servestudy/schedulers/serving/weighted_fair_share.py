"""Virtual token counters (VTC; Sheng et al., OSDI 2024) over request classes, weighted by `Request.weight`.

A class is charged for each prompt token when a request is admitted and for each output token when it is made, divided
by the weight. The next request is the oldest of the class with the least counter. A class that comes back after
having nothing in the queue is lifted to the least counter among those waiting, so that idling earns no credit.
Simplified: a class whose oldest request does not fit is passed over, and recomputed tokens are not charged again.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request, Scheduler
from servestudy.schedulers.serving.ordered import positive_weight
from servestudy.schedulers.serving.room import Room


class _Class:
    """Queue and counter of one class. Each of its decodes makes a token an iteration, so the counter grows linearly."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, int]] = []  # a heap of (arrival, id)
        self._charged = 0.0
        self._charge_per_step = 0.0
        self._since_step = 0

    def counter(self, step: int) -> float:
        return self._charged + self._charge_per_step * (step - self._since_step)

    def charge(self, step: int, amount: float, more_per_step: float = 0.0) -> None:
        self._charged = self.counter(step) + amount
        self._since_step = step
        self._charge_per_step += more_per_step

    def lift(self, step: int, counter: float) -> None:
        self.charge(step, max(0.0, counter - self.counter(step)))


@dataclass
class WeightedFairShare(Scheduler):
    prompt_token_charge: float = 1.0
    output_token_charge: float = 2.0

    def reset(self) -> None:
        self._classes: dict[str, _Class] = {}
        self._requests: dict[int, Request] = {}
        self._tokens_charged: dict[int, int] = {}  # of admitted requests: output tokens when last looked at
        self._decoding: set[int] = set()
        self._prefilling: list[int] = []
        self._last_left: _Class | None = None  # the class whose request left the queue last

    def _update(self, view: ReplicaView) -> None:
        """Charge what was made since the last decision, take in who joined."""
        step = view.step
        preempted = [request.request_id for request in view.joined if request.request_id in self._tokens_charged]
        for request_id in (*view.finished, *preempted):
            if request_id in self._decoding:
                self._decoding.remove(request_id)
                self._charge(request_id, step, 0, -1)
            elif request_id in self._prefilling:
                self._prefilling.remove(request_id)
                self._charge(request_id, step, 1 if request_id in view.finished else 0)
        still_prefilling = []
        for request_id in self._prefilling:
            if view.prefill_left(request_id):
                still_prefilling.append(request_id)
            else:
                made = view.tokens_made(request_id)
                self._charge(request_id, step, made - self._tokens_charged[request_id], 1)
                self._decoding.add(request_id)
        self._prefilling = still_prefilling
        for request_id in view.finished:
            self._requests.pop(request_id, None)
            self._tokens_charged.pop(request_id, None)
        for request in view.joined:
            self._join(request, step)

    def _charge(self, request_id: int, step: int, tokens: int, more_tokens_per_step: int = 0) -> None:
        request = self._requests[request_id]
        per_token = self.output_token_charge / positive_weight(request)
        self._classes[request.class_id].charge(step, per_token * tokens, per_token * more_tokens_per_step)

    def _join(self, request: Request, step: int) -> None:
        own = self._classes.setdefault(request.class_id, _Class())
        if not own.waiting:
            others = [c.counter(step) for c in self._classes.values() if c.waiting]
            if others:
                own.lift(step, min(others))
            elif self._last_left is not None:
                own.lift(step, self._last_left.counter(step))
        heappush(own.waiting, (request.arrival_s, request.request_id))
        self._requests[request.request_id] = request

    def decide(self, view: ReplicaView) -> Action:
        self._update(view)
        if not view.waiting_count:
            return WAIT
        room = Room(view)
        while room.is_open() and self._admit_one(room, view):
            pass
        waiting = view.waiting_count > len(room.admitted)
        return Action(room.admitted, valid_steps=room.valid_steps() if waiting else UNTIL_EVENT)

    def _admit_one(self, room: Room, view: ReplicaView) -> bool:
        """Admit the oldest of the first class, by counter, whose oldest fits."""
        classes = [(c.counter(view.step), name) for name, c in self._classes.items() if c.waiting]
        for _, name in sorted(classes):
            own = self._classes[name]
            request_id = own.waiting[0][1]
            if room.take(request_id, view.prefill_left(request_id)):
                heappop(own.waiting)
                self._last_left = own
                self._prefilling.append(request_id)
                request = self._requests[request_id]
                if request_id not in self._tokens_charged:
                    own.charge(view.step, self.prompt_token_charge / positive_weight(request) * request.prompt_tokens)
                self._tokens_charged[request_id] = view.tokens_made(request_id)
                return True
        return False

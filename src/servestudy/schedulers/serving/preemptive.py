"""Base class of schedulers that preempt a running request for a waiting one.

What that costs is the replica's preemption mode: KV recomputed, or swapped.
"""

import math
from heapq import heappop, heappush
from typing import Any

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.ordered import OrderedScheduler
from servestudy.schedulers.serving.room import Room

NO_ENTRIES = (None, None)


class PreemptiveScheduler(OrderedScheduler):
    """When the first in the queue finds no slot or no blocks, running requests that must yield to it are preempted.

    They are asked in ascending order of a rank that stands between two reviews of a request, until the first in the
    queue fits; if one need not yield, or all do not free enough, nobody is preempted. A running request makes at most
    one token an iteration: so it is known for how many iterations an answer stands.
    """

    def review(self, request: Request, view: ReplicaView) -> tuple[tuple | None, float]:
        """Rank of a running request among those to be asked (None: not to be asked yet), and iterations until the next
        review (UNTIL_EVENT: none). Called when it is admitted and, some time after they have passed, again."""
        raise NotImplementedError

    def tokens_to_yield(self, request: Request, view: ReplicaView, key: Any) -> int:
        """Tokens that a running request may still make before it must yield to a waiting one with this key.

        0 or less: it must yield now. UNTIL_EVENT: not before its next review.
        """
        raise NotImplementedError

    def reset(self) -> None:
        super().reset()
        self._requests: dict[int, Request] = {}  # of all that wait or run
        self._entries: dict[int, tuple] = {}  # the two of each running one in the heaps below; any others are stale
        self._to_ask: list[tuple] = []  # (*rank, id)
        self._to_review: list[tuple[int, int]] = []  # (step, id)

    def enqueue(self, view: ReplicaView) -> None:
        for request_id in view.finished:
            self._requests.pop(request_id, None)
            self._entries.pop(request_id, None)
        for request in view.joined:
            self._requests[request.request_id] = request
            self._entries.pop(request.request_id, None)
            self.push(request, view)

    def decide(self, view: ReplicaView) -> Action:
        if view.joined or view.finished:
            self.enqueue(view)
        if not view.waiting_count:
            return WAIT
        room = Room(view)
        head = self.admit_in_order(room, view)
        preempt: list[int] = []
        if head is None:
            valid_steps = UNTIL_EVENT
        elif room.backlog >= room.tokens:
            valid_steps = room.steps_without_budget()
        else:
            preempt, valid_steps = self._make_room(room, view, head)
        for request_id in room.admitted:
            steps = self._review(request_id, view)
            if steps < valid_steps and head is not None:  # nobody yields to an empty queue
                valid_steps = steps
        return Action(room.admitted, preempt, valid_steps=valid_steps, valid_until_s=self.stands_until_s(view))

    def stands_until_s(self, view: ReplicaView) -> float:
        """When a decision lapses because time alone changes the order of the queue."""
        return math.inf

    def _review(self, request_id: int, view: ReplicaView) -> int:
        """Put a running request among those to be asked; return the iterations until its next review."""
        rank, steps = self.review(self._requests[request_id], view)
        to_ask = to_review = None
        if rank is not None:
            to_ask = (*rank, request_id)
            heappush(self._to_ask, to_ask)
        if steps < UNTIL_EVENT:
            to_review = (view.step + steps, request_id)
            heappush(self._to_review, to_review)
        self._entries[request_id] = to_ask, to_review
        return steps

    def _due_reviews(self, view: ReplicaView) -> int:
        """Review whose time has come; return the iterations until the next review."""
        while self._to_review:
            entry = self._to_review[0]
            step, request_id = entry
            stands = self._entries.get(request_id, NO_ENTRIES)[1] is entry
            if stands and step > view.step:
                return step - view.step
            heappop(self._to_review)
            if stands:
                self._review(request_id, view)
        return UNTIL_EVENT

    def _make_room(self, room: Room, view: ReplicaView, head: tuple) -> tuple[list[int], int]:
        """Admit the first in the queue in place of running requests.

        Returns the ids of these and the iterations for which the answer stands.
        """
        key, _, head_id = head
        valid_steps = self._due_reviews(view)
        to_ask, entries = self._to_ask, self._entries
        tokens_of_head = view.prefill_left(head_id)
        victims: list[int] = []
        asked = []
        while to_ask:
            entry = to_ask[0]
            request_id = entry[-1]
            if entries.get(request_id, NO_ENTRIES)[0] is not entry:
                heappop(to_ask)
                continue
            request = self._requests[request_id]
            tokens = self.tokens_to_yield(request, view, key)
            if tokens > 0:
                valid_steps = min(valid_steps, tokens)
                break
            asked.append(heappop(to_ask))
            victims.append(request_id)
            # At least what it holds in blocks: a decode has not stored its newest token yet.
            room.give_back(request.prompt_tokens + max(0, view.tokens_made(request_id) - 1))
            if room.take(head_id, tokens_of_head):
                self.pop()
                return victims, 1
        for entry in asked:
            heappush(to_ask, entry)
        return [], valid_steps

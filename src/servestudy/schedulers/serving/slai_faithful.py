"""SLAI (Bari, Hegde and de Veciana, 2025): decodes wait until their token deadline is near, prefill takes the budget
meanwhile.

Each running request has a target time between tokens. Its next decode becomes critical `offset_s` before that time is
over, earlier while KV is nearly full. An iteration serves the critical decodes, then prefills up to 512 tokens,
shortest waiting prompt first, then other decodes with what is left, the most urgent first. Simplified: two fixed
offsets, longer than an iteration, stand for the paper's dynamic one; a request without a target has the slackest
tier.
"""

import math
import sys
from dataclasses import dataclass

from servestudy.schedulers.protocol import WAIT, Action, ReplicaView, Request
from servestudy.schedulers.serving.chunked import ChunkedScheduler
from servestudy.schedulers.serving.room import Room


@dataclass
class SlaiFaithful(ChunkedScheduler):
    offset_s: float = 0.06
    crowded_offset_s: float = 0.12
    crowded_kv_share: float = 0.96
    slackest_tbt_s: float = 0.5

    def reset(self) -> None:
        super().reset()
        self._tbt_s: dict[int, float] = {}  # of all that wait or run
        self._served: dict[float, set[int]] = {}  # decodes that made a token in the last iteration, by TBT target
        self._held: dict[tuple[float, float], set[int]] = {}  # other decodes, by (deadline of the next token, target)

    def key(self, request: Request, view: ReplicaView) -> int:
        return view.prefill_left(request.request_id)

    def enqueue(self, view: ReplicaView) -> None:
        prefilling = self._prefilling
        super().enqueue(view)
        gone = {request.request_id for request in view.joined}.union(view.finished)
        for request_id in gone.intersection(self._tbt_s):
            for ids in (*self._served.values(), *self._held.values()):
                ids.discard(request_id)
        for request_id in view.finished:
            self._tbt_s.pop(request_id, None)
        for request in view.joined:
            tbt_s = request.tbt_target_s
            self._tbt_s[request.request_id] = self.slackest_tbt_s if math.isinf(tbt_s) else tbt_s
        for request_id in prefilling:
            if request_id not in gone and not view.prefill_left(request_id):
                self._serve(self._tbt_s[request_id], {request_id})

    def _serve(self, tbt_s: float, ids: set[int]) -> None:
        self._served.setdefault(tbt_s, set()).update(ids)

    def decide(self, view: ReplicaView) -> Action:
        self.enqueue(view)
        if not self._prefilling and not self._could_admit(view):
            self._serve_most(sys.maxsize)
            return WAIT
        now = view.time_s
        for tbt_s, ids in self._served.items():
            if ids:
                self._held[now + tbt_s, tbt_s] = ids
        self._served = {}
        crowded = view.kv_tokens >= self.crowded_kv_share * view.limits.max_kv_tokens
        offset_s = self.crowded_offset_s if crowded else self.offset_s
        critical = sum(len(ids) for (deadline_s, _), ids in self._held.items() if now >= deadline_s - offset_s)
        budget = self.token_budget - critical
        room = Room(view, budget)
        self.admit_in_order(room, view)
        prefill, valid_steps = self.chunks(view, budget)
        self._serve_most(critical + max(0, budget - sum(prefill.values())))
        hold = frozenset().union(*self._held.values())
        if room.admitted or self._served or not hold:
            return Action(room.admitted, hold=hold, prefill=prefill)
        if self._waiting:
            valid_steps = min(valid_steps, room.valid_steps())
        first_critical_s = min(deadline_s for deadline_s, _ in self._held) - offset_s
        return Action(hold=hold, valid_steps=valid_steps, prefill=prefill, valid_until_s=first_critical_s)

    def _could_admit(self, view: ReplicaView) -> bool:
        """Is there a slot and are there blocks for the first in the queue?"""
        head = self.head()
        return head is not None and view.limits.fits(view.running_count, view.kv_tokens, view.prefill_left(head[2]))

    def _serve_most(self, count: int) -> None:
        """Serve at most `count` of the decodes, the nearest deadline first."""
        for group in sorted(self._held):
            ids = self._held[group]
            chosen = ids if len(ids) <= count else set(sorted(ids)[:count])
            if not chosen and ids:
                break
            self._serve(group[1], chosen)
            count -= len(chosen)
            if len(chosen) == len(ids):
                del self._held[group]
            else:
                ids -= chosen

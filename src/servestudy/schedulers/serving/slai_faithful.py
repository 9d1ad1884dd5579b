"""SLAI (Bari, Hegde and de Veciana, 2025): decodes wait until their token deadline is near, prefill takes the budget
meanwhile.

Each running request has a target time between tokens. Its next decode becomes critical `offset_s` before that time is
over, earlier while KV is nearly full. An iteration serves the critical decodes, then prefills up to 512 tokens,
shortest waiting prompt first, then other decodes with what is left, the most urgent first. Simplified: two fixed
offsets, longer than an iteration, stand for the paper's dynamic one; a request without a target has the slackest
tier; decodes with one deadline and target, a group, are served together, so what is left serves whole groups only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from servestudy.schedulers.protocol import UNTIL_EVENT, Action, ReplicaView, Request
from servestudy.schedulers.serving.chunked import ChunkedScheduler
from servestudy.schedulers.serving.room import Room

NONE: frozenset[int] = frozenset()
URGENCY = attrgetter("urgency")


class _Group:
    """Decodes that made their last token in the same iteration and have the same target between tokens."""

    __slots__ = ("cohort", "ids", "tbt_s", "urgency")

    def __init__(self, cohort: int, tbt_s: float, now_s: float):
        self.cohort = cohort  # its number at the engine
        self.tbt_s = tbt_s
        self.urgency = now_s + tbt_s, tbt_s  # deadline of the next token, target
        self.ids: set[int] = set()


@dataclass
class SlaiFaithful(ChunkedScheduler):
    offset_s: float = 0.06
    crowded_offset_s: float = 0.12
    crowded_kv_share: float = 0.96
    slackest_tbt_s: float = 0.5

    def reset(self) -> None:
        super().reset()
        self._tbt_s: dict[int, float] = {}  # of all that wait or run
        self._groups: list[_Group] = []  # none is empty; most urgent first
        self._group_of: dict[int, _Group] = {}
        self._served: list[_Group] = []  # in the last iteration
        self._free_cohorts: list[int] = []
        self._cohorts = 0  # numbers in use or free; 0 itself, where requests begin, is never held

    def key(self, request: Request, view: ReplicaView) -> int:
        return view.prefill_left(request.request_id)

    def enqueue(self, view: ReplicaView) -> None:
        super().enqueue(view)
        for request_id in view.finished:
            self._leave(request_id)
            self._tbt_s.pop(request_id, None)
        for request in view.joined:
            if request.request_id in self._group_of:
                self._leave(request.request_id)  # preempted
            tbt_s = request.tbt_target_s
            self._tbt_s[request.request_id] = self.slackest_tbt_s if tbt_s == math.inf else tbt_s

    def _leave(self, request_id: int) -> None:
        group = self._group_of.pop(request_id, None)
        if group:
            group.ids.remove(request_id)
            if not group.ids:
                self._dissolve(group)

    def _new_group(self, tbt_s: float, now_s: float) -> _Group:
        if not self._free_cohorts:
            self._cohorts += 1
            self._free_cohorts.append(self._cohorts)
        group = _Group(self._free_cohorts.pop(), tbt_s, now_s)
        self._groups.append(group)
        return group

    def _dissolve(self, group: _Group) -> None:
        self._groups.remove(group)
        self._free_cohorts.append(group.cohort)

    def decide(self, view: ReplicaView) -> Action:
        self.follow(view)
        now = view.time_s
        regroup = self._regroup(now) if self._served or self._prefilled else {}
        groups = self._groups
        if not self._prefilling and not self._could_admit(view):
            self._served = groups.copy()
            return Action(valid_steps=UNTIL_EVENT, regroup=regroup)
        crowded = view.kv_tokens >= self.crowded_kv_share * view.limits.max_kv_tokens
        offset_s = self.crowded_offset_s if crowded else self.offset_s
        budget, served = self.token_budget, 0
        for group in groups:
            if now < group.urgency[0] - offset_s:
                break
            budget -= len(group.ids)
            served += 1
        admit: Sequence[int] = ()
        if self._waiting and view.prefill_backlog < budget:
            room = Room(view, budget)
            self.admit_in_order(room, view)
            admit = room.admitted
        prefill, valid_steps = self.chunks(budget)
        budget -= sum(prefill.values())
        for group in groups[served:]:
            budget -= len(group.ids)
            if budget < 0:
                break
            served += 1
        self._served = groups[:served]
        hold = {group.cohort for group in groups[served:]} if served < len(groups) else NONE
        if admit or served:
            return Action(admit, (), NONE, 1, (), prefill, math.inf, regroup, hold)
        if self._waiting:
            valid_steps = min(valid_steps, Room(view, self.token_budget).valid_steps())
        until_s = groups[0].urgency[0] - offset_s if hold else math.inf
        return Action((), (), NONE, valid_steps, (), prefill, until_s, regroup, hold)

    def _could_admit(self, view: ReplicaView) -> bool:
        """Is there a slot and are there blocks for the first in the queue?"""
        head = self.head()
        return head is not None and view.limits.fits(view.running_count, view.kv_tokens, view.prefill_left(head[2]))

    def _regroup(self, now_s: float) -> dict[int, int]:
        """Decodes that made a token in the last iteration form one group a target. Returns who changes its cohort."""
        cohorts: dict[int, int] = {}
        of_target: dict[float, _Group] = {}
        for group in self._served:
            if group.ids:
                tbt_s = group.tbt_s
                group.urgency = now_s + tbt_s, tbt_s
                large = of_target.setdefault(tbt_s, group)
                if large is not group:
                    of_target[tbt_s] = self._merge(large, group, cohorts)
        for request_id in self._prefilled:
            tbt_s = self._tbt_s[request_id]
            group = of_target.get(tbt_s) or of_target.setdefault(tbt_s, self._new_group(tbt_s, now_s))
            group.ids.add(request_id)
            self._group_of[request_id] = group
            cohorts[request_id] = group.cohort
        if len(self._groups) > 1:
            self._groups.sort(key=URGENCY)
        return cohorts

    def _merge(self, one: _Group, other: _Group, cohorts: dict[int, int]) -> _Group:
        """Move the smaller one into the larger."""
        small, large = (one, other) if len(one.ids) < len(other.ids) else (other, one)
        large.ids |= small.ids
        for request_id in small.ids:
            self._group_of[request_id] = large
            cohorts[request_id] = large.cohort
        small.ids.clear()
        self._dissolve(small)
        return large

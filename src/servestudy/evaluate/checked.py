"""A scheduler under watch: passes each view on and each action back, unchanged, and notes what breaks the protocol.

It stands between engine and scheduler, so the engines know nothing of it and the results are those of the scheduler
itself. The view that the scheduler gets is a copy: it cannot spoil the run, and what it writes there is noticed.
"""

import math
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from numbers import Integral, Real
from time import perf_counter_ns

from servestudy.evaluate.findings import Finding, OutOfTime, SchedulerFault
from servestudy.evaluate.loading import described
from servestudy.schedulers.protocol import Action, ReplicaView, Request, Scheduler

PASSED_ON = ("step", "time_s", "waiting_count", "running_count", "decoding_count", "prefill_backlog", "kv_tokens")
UNSAID = Action()
TIMED_DECISIONS = 5_000
"""Of each run, at most so many are timed."""
MANY_PREEMPTIONS = 10
"""Of one request by the scheduler: enough to speak of a livelock if it never completes."""


class Checked(Scheduler):
    """Wraps `inner`.

    Attributes
    ----------
    findings: the first of each kind and wording, in order.
    decision_ns: what the first decisions took, in nanoseconds, without what is done here.
    actions: (step, time, action) of all decisions, if `keep_actions`.
    """

    def __init__(self, inner: Scheduler, keep_actions: bool = False):
        self.inner = inner
        self.prefill_first = inner.prefill_first
        self.chunked_prefill = inner.chunked_prefill
        self.findings: list[Finding] = []
        self.decision_ns = array("Q")
        self.actions: list[tuple[int, float, Action]] | None = [] if keep_actions else None
        self.step = 0
        self.time_s = 0.0
        self._noted: set[tuple[str, str]] = set()

    def reset(self) -> None:
        self._queue: dict[int, Request] = {}
        self._running: dict[int, Request] = {}
        self._view: ReplicaView | None = None
        self._acted = True
        self._action = Action()
        self._admitted: list[int] = []
        self._cohort_of: dict[int, int] = {}
        self._held_since: dict[int, int] = {}
        self._idle_since: int | None = None
        self._preemptions: dict[int, int] = {}
        self._guarded(self.inner.reset)

    def decide(self, view: ReplicaView) -> Action:
        self.step, self.time_s = view.step, view.time_s
        self._see(view)
        self._note_refused(view)
        mine = self._view
        for name in PASSED_ON:
            setattr(mine, name, getattr(view, name))
        mine.joined, mine.finished = list(view.joined), list(view.finished)
        start = perf_counter_ns()
        action = self._guarded(self.inner.decide, mine)
        if len(self.decision_ns) < TIMED_DECISIONS:
            self.decision_ns.append(perf_counter_ns() - start)
        self._check_view(view)
        wrong = malformed(action)
        if wrong:
            raise SchedulerFault(self._finding("bad_action", None, wrong))
        self._check_action(action)
        self._remember(action, view)
        if self.actions is not None:
            self.actions.append((view.step, view.time_s, _kept(action)))
        return action

    def victim(self, running: Sequence[Request]) -> int:
        request_id = self._guarded(self.inner.victim, running)
        if all(request.request_id != request_id for request in running):
            self._note("unknown_request", None, f"victim() names {request_id!r}, which is not running")
        return request_id

    def _guarded(self, function: Callable, *arguments):
        """The function's value; its exceptions become faults that name the step."""
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            text = f"{function.__name__}() raised {described(error)}"
            raise SchedulerFault(self._finding("raises", None, text)) from error

    def out_of_time(self, seconds: float) -> OutOfTime:
        text = f"the cell took longer than {seconds:g} s; the last call of the scheduler was decide() in this step"
        return OutOfTime(self._finding("never_returns", None, text))

    def _finding(self, kind: str, request_id: int | None, text: str) -> Finding:
        return Finding(kind, self.step, self.time_s, request_id, text)

    def _note(self, kind: str, request_id: int | None, text: str) -> None:
        wording = text if request_id is None else ""
        if (kind, wording) not in self._noted:
            self._noted.add((kind, wording))
            self.findings.append(self._finding(kind, request_id, text))

    def _see(self, view: ReplicaView) -> None:
        """Bring the scheduler's copies of queue and batch up to date: they change with events and actions only."""
        queue, running = view._queue, view._running
        same = len(queue) == len(self._queue) and len(running) == len(self._running)
        if self._view is None:
            self._view = ReplicaView(self._queue, self._running, view.limits, view.tokens_made, view.prefill_left)
        elif same and not (self._acted or view.joined or view.finished):
            return
        for mine, theirs in ((self._queue, queue), (self._running, running)):
            mine.clear()
            mine.update(theirs)

    def _check_view(self, view: ReplicaView) -> None:
        mine = self._view
        changed = [name for name in PASSED_ON if getattr(mine, name) != getattr(view, name)]
        changed += [name for name in ("joined", "finished") if getattr(mine, name) != list(getattr(view, name))]
        for name, own, theirs in (("queue", self._queue, view._queue), ("running", self._running, view._running)):
            if len(own) != len(theirs):
                changed.append(name)
                own.clear()
                own.update(theirs)
        if changed:
            self._note("changes_view", None, f"decide() changed {', '.join(changed)} of the view")

    def _check_action(self, action: Action) -> None:
        seen: set[int] = set()
        gone = {*action.preempt, *action.reject}
        for request_id in action.admit:
            if request_id in seen:
                self._note("admits_twice", request_id, "it stands twice in admit")
            elif request_id in self._running:
                self._note("admits_twice", request_id, "it is running already")
            elif request_id not in self._queue:
                self._note("admits_unknown", request_id, "it is not waiting: it has not arrived, or has left")
            elif request_id in gone:
                self._note("admits_unknown", request_id, "it is rejected or preempted in the same decision")
            seen.add(request_id)
        self._check_known("preempt", action.preempt, self._running, "running")
        self._check_known("reject", action.reject, self._queue, "waiting")
        there = self._running.keys() | seen
        for name in ("hold", "prefill", "regroup"):
            self._check_known(name, getattr(action, name) or (), there, "running")

    def _check_known(self, name: str, request_ids: Collection[int], known: Collection[int], what: str) -> None:
        for request_id in request_ids:
            if request_id not in known:
                self._note("unknown_request", request_id, f"it stands in {name} but is not {what}")
                return

    def _remember(self, action: Action, view: ReplicaView) -> None:
        """What the next call, and the end of the run, are checked against."""
        self._acted = any(map(len, (action.admit, action.preempt, action.reject)))
        self._action = action
        self._admitted = [i for i in action.admit if i in self._queue and i not in action.reject]
        for request_id in action.preempt:
            self._preemptions[request_id] = self._preemptions.get(request_id, 0) + 1
        self._cohort_of.update(action.regroup)
        if action.hold or action.hold_cohorts or self._held_since:
            held = [i for i in [*self._running, *self._admitted] if self._is_held(i, action)]
            self._held_since = {i: self._held_since.get(i, view.step) for i in held}
        runs = len(self._running) - len(action.preempt) + len(self._admitted) - len(self._held_since)
        if runs > 0 or not self._queue:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = view.step

    def _is_held(self, request_id: int, action: Action) -> bool:
        return request_id in action.hold or self._cohort_of.get(request_id, 0) in action.hold_cohorts

    def _note_refused(self, view: ReplicaView) -> None:
        """Who was admitted but waits on, and was not preempted, was refused by the engine."""
        if self._admitted:
            back = {request.request_id for request in view.joined}
            refused = [i for i in self._admitted if i in view._queue and i not in back]
            self._admitted = []
            if refused:
                self._note_no_room(refused[0])

    def _note_no_room(self, request_id: int) -> None:
        action, view = self._action, self._view
        admitted = list(action.admit).index(request_id)
        running = view.running_count - len(action.preempt) + admitted
        if running >= view.limits.max_num_seqs:
            self._note("exceeds_slots", request_id, f"all {view.limits.max_num_seqs} slots are taken; it was refused")
        else:
            text = f"{view.limits.max_kv_tokens - view.kv_tokens} KV tokens were free before the decision"
            self._note("exceeds_kv", request_id, f"its KV does not fit ({text}); it was refused")

    def finish(self, unfinished: Set[int]) -> None:
        """Look at how the run ended. `unfinished`: requests that neither completed nor were rejected."""
        stuck = sorted(unfinished & (self._queue.keys() | self._running.keys()))
        if not stuck:
            return
        view, action = self._view, self._action
        last = next((i for i in self._admitted if i in unfinished), None)
        if last is not None and not (action.preempt or self._fits(last, view.running_count, view.kv_tokens)):
            self._note_no_room(last)
        waiting = [i for i in self._queue if i in unfinished and i not in self._admitted]
        held = [i for i in stuck if i in self._held_since]
        again = max(stuck, key=lambda i: self._preemptions.get(i, 0))
        if self._preemptions.get(again, 0) >= MANY_PREEMPTIONS:
            self._note("livelock", again, f"preempted {self._preemptions[again]} times, it never completed")
        elif held:
            since = self._held_since[held[0]]
            self._note("holds_for_ever", held[0], f"held from step {since} to the end of the run")
        elif self._idle_since is not None and waiting and self._fits(waiting[0], 0, 0):
            text = f"{len(waiting)} requests wait from step {self._idle_since} to the end while nothing runs"
            self._note("deadlock", waiting[0], text)
        else:
            self._note("starves", stuck[0], f"{len(stuck)} requests had not completed when the run ended")

    def _fits(self, request_id: int, running: int, kv_tokens: int) -> bool:
        return self._view.limits.fits(running, kv_tokens, self._queue[request_id].prompt_tokens)


def _kept(action: Action) -> Action:
    """A copy that stays as it is when the scheduler goes on using its lists and sets."""
    return Action(
        admit=tuple(action.admit),
        preempt=tuple(action.preempt),
        hold=frozenset(action.hold),
        valid_steps=action.valid_steps,
        reject=tuple(action.reject),
        prefill=None if action.prefill is None else dict(action.prefill),
        valid_until_s=action.valid_until_s,
        regroup=dict(action.regroup),
        hold_cohorts=frozenset(action.hold_cohorts),
    )


def malformed(action: object) -> str:
    """What makes this no Action that an engine can read; empty if nothing."""
    if not isinstance(action, Action):
        return f"decide() returned {action!r:.80}, must be an Action"
    for name, value, default in zip(Action._fields, action, UNSAID, strict=True):
        wrong = "" if value is default else _wrong(name, value)
        if wrong:
            return f"{name} {wrong}"
    return ""


def _wrong(name: str, value: object) -> str:
    """What is wrong with the value of a field of an Action."""
    if name == "valid_steps":
        fine = isinstance(value, Integral) and value >= 1
        return "" if fine else f"is {value!r}, must be a whole number, 1 or more"
    if name == "valid_until_s":
        fine = isinstance(value, Real) and not math.isnan(value)
        return "" if fine else f"is {value!r}, must be a number of seconds"
    if name in ("prefill", "regroup"):
        fine = isinstance(value, Mapping) and all(isinstance(number, Integral) for number in value.values())
        fine = fine or (value is None and name == "prefill")
        return "" if fine else f"is {value!r:.80}, must be a mapping of request ids to whole numbers"
    kind, what = (Set, "a set") if name in ("hold", "hold_cohorts") else (Collection, "a sequence")
    if not isinstance(value, kind) or isinstance(value, str):
        return f"is {value!r:.80}, must be {what} of request ids"
    for item in value:
        if not isinstance(item, Integral):
            return f"holds {item!r:.80}, must hold ids: request.request_id"
    return ""

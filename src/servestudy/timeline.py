"""What each request of one cell does when: waits, prefills, decodes or is held; and who is preempted.

The engines are not touched: a recorder around the scheduler looks at the requests in each decision. What one did since
the decision before follows from the prompt and output tokens that it has made meanwhile.
"""

import math
from dataclasses import dataclass, field

from servestudy.engine_model import EngineModel
from servestudy.metrics import Outcome
from servestudy.schedulers.protocol import Action, ReplicaView, Request, Scheduler
from servestudy.workload import Workload

STATES = ("wait", "prefill", "decode", "hold")
"""hold: it has its slot but gets nothing, by the scheduler's will or because the budget goes to others first."""


@dataclass
class Span:
    """A request in one state. `tokens`: prompt tokens (prefill) or output tokens (decode) made in it."""

    request_id: int
    state: str
    start_s: float
    end_s: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class Sample:
    """Load of the replica at a decision."""

    time_s: float
    waiting: int
    running: int
    kv_tokens: int


@dataclass(frozen=True)
class Timeline:
    """`spans` by request, then time; `preemptions` as (time in s, id); `end` of each request that arrived: completed,
    rejected or unfinished. `output_tokens` are the true lengths."""

    requests: list[Request]
    output_tokens: list[int]
    spans: list[Span]
    preemptions: list[tuple[float, int]]
    load: list[Sample]
    end: dict[int, str]


@dataclass
class _Request:
    """A request in the last decision. `spans` are all its spans so far; the last one is open.

    left_s: when it left the queue if it neither ran nor completed then.
    """

    output_tokens: int
    prefill_left: int
    made: int = 0
    left_s: float = math.inf
    spans: list[Span] = field(default_factory=list)


class Recorder(Scheduler):
    """Passes views and actions on. `outputs` are the true lengths by id, for the tokens of completed requests.

    prefill_is_free: an admitted request decodes at once, and a preempted one starts anew.
    """

    def __init__(self, inner: Scheduler, outputs: list[int], prefill_is_free: bool):
        self.inner = inner
        self.prefill_first = inner.prefill_first
        self.chunked_prefill = inner.chunked_prefill
        self.all: dict[int, _Request] = {}
        self.active: dict[int, _Request] = {}
        self.preemptions: list[tuple[float, int]] = []
        self.load: list[Sample] = []
        self._outputs = outputs
        self._prefill_is_free = prefill_is_free
        self._time_s = 0.0
        self._action = Action()

    def reset(self) -> None:
        self.inner.reset()

    def victim(self, running: list[Request]) -> int:
        return self.inner.victim(running)

    def decide(self, view: ReplicaView) -> Action:
        finished, joined = set(view.finished), {request.request_id for request in view.joined}
        running = {request.request_id for request in view.running}
        for request_id, known in list(self.active.items()):
            if request_id in finished:
                self._progress(request_id, known, known.output_tokens, 0)
                del self.active[request_id]
            elif request_id in running:
                self._progress(request_id, known, view.tokens_made(request_id), view.prefill_left(request_id))
            else:
                self._show(request_id, known, "wait")
                if request_id in joined:
                    self.preemptions.append((self._time_s, request_id))
                    if self._prefill_is_free:
                        known.made = 0
                    else:
                        known.prefill_left = view.prefill_left(request_id)
                elif request_id not in view._queue:
                    known.left_s = min(known.left_s, self._time_s)
        for request in view.joined:
            if request.request_id not in self.active:
                self._arrive(request, view.prefill_left(request.request_id))
        self.load.append(Sample(view.time_s, view.waiting_count, view.running_count, view.kv_tokens))
        self._time_s = view.time_s
        self._action = self.inner.decide(view)
        return self._action

    def _arrive(self, request: Request, prefill_left: int) -> None:
        request_id = request.request_id
        known = _Request(self._outputs[request_id], 0 if self._prefill_is_free else prefill_left)
        known.spans.append(Span(request_id, "wait", request.arrival_s))
        self.all[request_id] = self.active[request_id] = known

    def _progress(self, request_id: int, known: _Request, made: int, prefill_left: int) -> None:
        """Since the last decision it came from `known` to here."""
        if prefill_left < known.prefill_left:
            self._show(request_id, known, "prefill", known.prefill_left - prefill_left)
        elif made > known.made:
            self._show(request_id, known, "decode", made - known.made)
        else:
            self._show(request_id, known, "hold")
        known.made, known.prefill_left = made, prefill_left

    def _show(self, request_id: int, known: _Request, state: str, tokens: int = 0) -> None:
        """It is in this state since the last decision."""
        last = known.spans[-1]
        if last.state != state:
            last.end_s = self._time_s
            last = Span(request_id, state, self._time_s)
            known.spans.append(last)
        last.tokens += tokens

    def finish(self, outcome: Outcome) -> dict[int, str]:
        """Close all spans; how each request ended."""
        completion_s = dict(zip(outcome.completed_ids.tolist(), outcome.completion_s.tolist(), strict=True))
        rejected = set(outcome.rejected_ids)
        end_s = max([self._time_s, outcome.sim_duration_s, *completion_s.values()])
        ends = dict.fromkeys(rejected, "rejected")
        for request_id, known in self.active.items():
            if request_id in completion_s:
                self._progress(request_id, known, known.output_tokens, 0)
            elif request_id in self._action.hold and request_id not in rejected:
                self._show(request_id, known, "hold")
        for request_id, known in self.all.items():
            last = known.spans[-1]
            if request_id in completion_s:
                ends[request_id], last.end_s = "completed", completion_s[request_id]
            elif request_id in rejected:
                last.end_s = max(last.start_s, min(known.left_s, self._time_s))
            else:
                ends[request_id], last.end_s = "unfinished", end_s
        return ends


def record(model: EngineModel, scaled: Workload, scheduler: Scheduler, name: str = "") -> Timeline:
    """Run a scaled window and tell what happened in it.

    Where prefill takes time, the engine goes step by step: a jump may cover steps in which prefills take turns.
    """
    outputs = scaled.output_tokens.tolist()
    is_free = model.name == "published" and model.rules.engine.prefill == "free"
    recorder = Recorder(scheduler, outputs, is_free)
    outcome = model.run(scaled, recorder, name, step_by_step=not is_free)
    ends = recorder.finish(outcome)
    spans = [span for _, known in sorted(recorder.all.items()) for span in known.spans if span.end_s > span.start_s]
    return Timeline(scaled.requests(), outputs, spans, recorder.preemptions, recorder.load, ends)

"""What each request of one run on the serving engine does when, and on which replica.

The engine is not touched: a recorder looks at a replica whenever the cluster has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from servestudy.chrome_trace import microseconds, trace_event, write_trace_events
from servestudy.engine.outcome import Progress
from servestudy.errors import UserError
from servestudy.tables import column, write_table
from servestudy.tiers.load import requests_per_s
from servestudy.tiers.outcome import simulate
from servestudy.tiers.serving_replica import ServingReplica, tier_of
from servestudy.tiers.serving_systems import ServingAssembly
from servestudy.tiers.settings import with_settings
from servestudy.tiers.study import preset_of
from servestudy.tiers.workload import draw

STATES = {
    "wait": "in the queue",
    "prefill": "in the batch, prompt not done",
    "decode": "in the batch, prompt done",
    "move": "paused, on its way from this replica to another",
}
TIMELINE_SCHEMA = pa.schema(
    [
        column("system", pa.string(), "name of the system"),
        column("request_id", pa.int64(), "number of the request, by arrival"),
        column("tier", pa.int32(), "its tier as the system sees it, 0 the most important"),
        column("replica", pa.int32(), "where it is"),
        column("state", pa.string(), "; ".join(f"{name}: {meaning}" for name, meaning in STATES.items())),
        column("preemptions", pa.int64(), "how often it has been preempted so far"),
        column("start_s", pa.float64(), "since when [s]"),
        column("end_s", pa.float64(), "until when [s]"),
    ]
)


@dataclass
class Span:
    """A request in one state on one replica."""

    request_id: int
    tier: int
    replica: int
    state: str
    preemptions: int
    start_s: float
    end_s: float = float("nan")


class Recorder:
    """Give `watch` the parts before the run, and `spans` are complete when it is over, by request, then time."""

    def __init__(self) -> None:
        self._spans: dict[int, list[Span]] = {}
        self._looked_at: dict[ServingReplica, int] = {}  # completed requests
        self._parts: ServingAssembly | None = None

    def watch(self, parts: ServingAssembly) -> None:
        self._parts = parts
        for replica in parts.replicas:
            self._looked_at[replica] = 0
            replica.advance = self._watched(replica)

    @property
    def spans(self) -> list[Span]:
        ordered = [span for _, spans in sorted(self._spans.items()) for span in spans]
        return [span for span in ordered if span.end_s > span.start_s]

    def _watched(self, replica: ServingReplica):
        advance = replica.advance

        def advance_and_look(now_s: float) -> float:
            delay_s = advance(now_s)
            self._look(replica, now_s)
            return delay_s

        return advance_and_look

    def _look(self, replica: ServingReplica, now_s: float) -> None:
        engine = replica.engine
        batch = engine.batch
        for p in batch.completed[self._looked_at[replica] :]:
            self._spans[p.request_id][-1].end_s = p.completion_s
        self._looked_at[replica] = len(batch.completed)
        for p in batch.progress.values():
            running = "decode" if engine.is_decoding(p.request_id) else "prefill"
            self._show(p, replica.index, running if p.request_id in batch.running else "wait", now_s)
        moving = list(self._parts.rebalancer.in_transit.values()) if self._parts.rebalancer else []
        for p in (*engine.to_receive(), *engine.coming):
            if p.prefill_left:
                self._show(p, replica.index, "wait", now_s)
            else:
                moving.append(p)  # it joins when the iteration in flight ends
        for p in moving:
            self._show(p, self._spans[p.request_id][-1].replica, "move", now_s)

    def _show(self, p: Progress, replica: int, state: str, now_s: float) -> None:
        spans = self._spans.setdefault(p.request_id, [])
        last = spans[-1] if spans else None
        if last and (last.replica, last.state, last.preemptions) == (replica, state, p.preemptions):
            return
        if last:
            last.end_s = now_s
        elif state != "wait" and now_s > p.arrival_s:
            spans.append(Span(p.request_id, tier_of(p.request), replica, "wait", 0, p.arrival_s, now_s))
        start_s = now_s if spans else p.arrival_s
        spans.append(Span(p.request_id, tier_of(p.request), replica, state, p.preemptions, start_s))


def record(
    system: str,
    tiers: int,
    requests: int,
    seed: int,
    load: str,
    kv_blocks: int | None = None,
    mix: str = "uniform",
    settings: Sequence[str] = (),
) -> list[Span]:
    """Run one cell of the preset `serving` and tell what happened in it.

    Raises UserError for an unknown system, mix, load or setting, or for one that leaves the serving engine.
    """
    preset = preset_of("serving")
    rules = with_settings(replace(preset.rules, total_blocks=kv_blocks or preset.rules.total_blocks), settings)
    if rules.engine != "serving":
        raise UserError(f"engine is {rules.engine!r}; a timeline is recorded on the serving engine only")
    workload = replace(preset.workload, requests=requests, requests_per_s=requests_per_s(load, preset.workload, rules))
    recorder = Recorder()
    simulate(system, draw(workload, mix, tiers, seed, rules.streams), tiers, rules, watch=recorder.watch)
    return recorder.spans


def write_timeline(system: str, spans: Iterable[Span], out: Path | str) -> None:
    """As a table of TIMELINE_SCHEMA."""
    rows = [{"system": system} | vars(span) for span in spans]
    write_table(pa.Table.from_pylist(rows, TIMELINE_SCHEMA), TIMELINE_SCHEMA, out)


def moves(spans: Iterable[Span]) -> list[tuple[Span, Span]]:
    """The spans before and after each change of replica."""
    return [
        (one, two) for one, two in pairwise(spans) if one.request_id == two.request_id and one.replica != two.replica
    ]


def preemptions(spans: Iterable[Span]) -> list[Span]:
    """The span before each preemption; that of a move if it found no room for its KV."""
    return [
        one
        for one, two in pairwise(spans)
        if one.request_id == two.request_id
        for _ in range(two.preemptions - one.preemptions)
    ]


def trace_events(spans: Sequence[Span], title: str) -> list[dict]:
    """Events of the Chrome trace format: a process a replica, a row a request, arrows for moves. Times in us."""
    events = []
    for replica in sorted({span.replica for span in spans}):
        events.append(_event("M", "process_name", 0, replica, 0, args={"name": f"{title}, replica {replica}"}))
    for replica, request_id in sorted({(span.replica, span.request_id) for span in spans}):
        events.append(_event("M", "thread_name", 0, replica, request_id, args={"name": f"request {request_id}"}))
    for span in spans:
        duration_us = round(microseconds(span.end_s) - microseconds(span.start_s), 3)
        events.append(_of("X", span.state, span.start_s, span, dur=duration_us, args={"tier": span.tier}))
    events += [_of("i", "preempt", span.end_s, span, s="t") for span in preemptions(spans)]
    for number, (one, two) in enumerate(moves(spans)):
        events.append(_of("s", "migrate", one.start_s, one, id=number, cat="move"))
        events.append(_of("f", "migrate", two.start_s, two, id=number, cat="move", bp="e"))
    return events


def write_trace(spans: Sequence[Span], title: str, out: Path | str) -> None:
    """Write the trace as JSON for ui.perfetto.dev; same spans, same bytes."""
    write_trace_events(trace_events(spans, title), out)


def _of(phase: str, name: str, time_s: float, span: Span, **more) -> dict:
    return _event(phase, name, microseconds(time_s), span.replica, span.request_id, **more)


def _event(phase: str, name: str, time_us: float, replica: int, request_id: int, **more) -> dict:
    return trace_event(phase, name, time_us, replica + 1, request_id + 1, **more)  # 0 is the viewer's own

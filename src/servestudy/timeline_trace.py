"""A timeline as a trace for chrome://tracing or ui.perfetto.dev."""

from pathlib import Path

from servestudy.chrome_trace import microseconds, trace_event, write_trace_events
from servestudy.timeline import Timeline

PROCESS = 1


def trace_events(timeline: Timeline, title: str) -> list[dict]:
    """Events of the Chrome trace format: a row a request, preemptions as instants, load as counters. Times in us."""
    events = [_event("M", "process_name", 0, PROCESS, args={"name": title})]
    for request in timeline.requests:
        row = request.request_id + 1  # row 0 is the process's own
        events.append(_event("M", "thread_name", 0, row, args={"name": f"request {request.request_id}"}))
        events.append(_event("M", "thread_sort_index", 0, row, args={"sort_index": row}))
    by_id = {request.request_id: request for request in timeline.requests}
    for span in timeline.spans:
        request = by_id[span.request_id]
        start, end = microseconds(span.start_s), microseconds(span.end_s)
        args = {"tokens": span.tokens} if span.tokens else {}
        if span.state == "wait":
            args |= {
                "prompt_tokens": request.prompt_tokens,
                "predicted_output_tokens": request.predicted_output_tokens,
                "output_tokens": timeline.output_tokens[span.request_id],
                "deadline_s": request.deadline_s,
                "class": request.class_id,
                "end": timeline.end[span.request_id],
            }
        events.append(_event("X", span.state, start, span.request_id + 1, dur=round(end - start, 3), args=args))
    for time_s, request_id in timeline.preemptions:
        events.append(_event("i", "preempt", microseconds(time_s), request_id + 1, s="t"))
    for request_id, end in sorted(timeline.end.items()):
        if end == "rejected":
            last = [span.end_s for span in timeline.spans if span.request_id == request_id]
            time_s = last[-1] if last else by_id[request_id].arrival_s
            events.append(_event("i", "reject", microseconds(time_s), request_id + 1, s="t"))
    last_load = None
    for sample in timeline.load:
        load = (sample.waiting, sample.running, sample.kv_tokens)
        if load != last_load:
            at = microseconds(sample.time_s)
            events.append(_event("C", "requests", at, 0, args={"waiting": load[0], "running": load[1]}))
            events.append(_event("C", "KV tokens", at, 0, args={"taken": load[2]}))
        last_load = load
    return events


def write_trace(timeline: Timeline, title: str, out: Path | str) -> None:
    """Write the trace as JSON; same timeline, same bytes."""
    write_trace_events(trace_events(timeline, title), out)


def _event(phase: str, name: str, time_us: float, row: int, **more) -> dict:
    return trace_event(phase, name, time_us, PROCESS, row, **more)

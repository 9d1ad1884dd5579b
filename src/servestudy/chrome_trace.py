"""The Chrome trace format, which chrome://tracing and ui.perfetto.dev show."""

import json
from collections.abc import Sequence
from pathlib import Path

from servestudy.files import atomic_path


def microseconds(time_s: float) -> float:
    """A time in the unit of the format, to the nanosecond."""
    return round(time_s * 1e6, 3)


def trace_event(phase: str, name: str, time_us: float, process: int, row: int, **more) -> dict:
    """An event of a phase of the format: X a span, i an instant, C a counter, M a name, s and f an arrow's ends."""
    return {"ph": phase, "name": name, "ts": time_us, "pid": process, "tid": row, **more}


def write_trace_events(events: Sequence[dict], out: Path | str) -> None:
    """Write events as JSON; same events, same bytes."""
    trace = {"displayTimeUnit": "ms", "traceEvents": events}
    with atomic_path(out) as part:
        part.write_text(json.dumps(trace, separators=(",", ":"), allow_nan=False) + "\n", encoding="utf-8")

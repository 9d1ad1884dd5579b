"""A timeline as a static picture."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.collections import PolyCollection

from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, save
from servestudy.timeline import STATES, Span, Timeline

STATE_COLOURS = {"wait": "#dddddd", "prefill": "#d55e00", "decode": "#0b3c6f", "hold": "#56b4e9"}
ROW_IN = 0.028


def draw_timeline(timeline: Timeline, title: str, model: str, outs: Iterable[Path | str]) -> None:
    """Draw requests as rows in order of arrival, and the load below; formats by the files' suffixes."""
    rows = len(timeline.requests)
    height_in = min(max(1.2, ROW_IN * rows), 9.0)
    figure = new_figure("What each request does", Context(title, model), height_in + 1.9, PAGE_WIDTH_IN)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[height_in, 1.0])
    for state in STATES:
        spans = [span for span in timeline.spans if span.state == state]
        if spans:
            above.add_collection(_bars(spans, facecolor=STATE_COLOURS[state], label=state))
    for what, marker, points in (("preempt", "v", timeline.preemptions), ("late", "x", _late(timeline))):
        if points:
            above.scatter(*zip(*points, strict=True), s=6, marker=marker, color="#222222", linewidths=0.6, label=what)
    above.autoscale_view()
    above.set_ylim(rows - 0.5, -0.5)
    above.set_ylabel("request, by arrival")
    above.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=6, frameon=False)
    times = [sample.time_s for sample in timeline.load]
    for name, style in (("waiting", "-"), ("running", "--")):
        below.step(times, [getattr(sample, name) for sample in timeline.load], style, where="post", label=name)
    below.set(xlabel="time [s]", ylabel="requests", ylim=(0, None))
    below.legend(loc="upper right", frameon=False)
    save(figure, outs)


def _bars(spans: list[Span], **look) -> PolyCollection:
    """A rectangle a span; one collection is drawn far sooner than as many bars."""
    start, end, row = np.array([(span.start_s, span.end_s, span.request_id) for span in spans]).T
    corners = [(start, row - 0.45), (end, row - 0.45), (end, row + 0.45), (start, row + 0.45)]
    return PolyCollection(np.array(corners).transpose(2, 0, 1), linewidth=0, **look)


def _late(timeline: Timeline) -> list[tuple[float, int]]:
    """Completions after the deadline that the scheduler sees: (time, request)."""
    last = {span.request_id: span.end_s for span in timeline.spans}
    return [
        (last[request.request_id], request.request_id)
        for request in timeline.requests
        if timeline.end.get(request.request_id) == "completed" and last[request.request_id] > request.deadline_s
    ]

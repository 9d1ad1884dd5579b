"""Figure: one run on the serving engine, the batches of each replica with moves and preemptions."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure
from servestudy.plotting.tiers_parts import require
from servestudy.tiers.timeline import Span, moves, preemptions

COLOURS = {"prefill": "#d55e00", "decode": "#0b3c6f", "move": "#009e73"}
WAITS = {"color": "0.55", "linewidth": 0.8}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A panel a replica: a bar a request in the batch, below the axis how many wait; lines lead moves elsewhere."""
    table = require(tables["serving_tier_timeline"], "the timeline")
    spans = [Span(**row) for row in table.drop(columns="system").to_dict("records")]
    replicas = sorted({span.replica for span in spans})
    lanes = _lanes(spans)
    counts = f"{len(moves(spans))} moves, {len(preemptions(spans))} preemptions"
    what = f"{table['system'].iloc[0]}: {table['request_id'].nunique()} requests, {counts}"
    figure = new_figure(what, context, 1.0 + 1.5 * len(replicas), PAGE_WIDTH_IN)
    panels = dict(zip(replicas, figure.subplots(len(replicas), 1, sharex=True, sharey=True, squeeze=False)[:, 0],
                      strict=True))  # fmt: skip
    for replica, axes in panels.items():
        _batches(axes, [span for span in spans if span.replica == replica], lanes)
        axes.set_ylabel(f"replica {replica}\nrequests")
    for one, two in moves(spans):
        _arrow(figure, panels[one.replica], panels[two.replica], one, two, lanes)
    lost = preemptions(spans)
    for replica, axes in panels.items():
        points = [(span.end_s, lanes[id(span)]) for span in lost if span.replica == replica and id(span) in lanes]
        axes.scatter(*np.reshape(points, (-1, 2)).T, s=9, marker="v", color="black", linewidths=0, label="preempt",
                     zorder=4)  # fmt: skip
    panels[replicas[-1]].set_xlabel("time (s)")
    panels[replicas[0]].set_xlim(0, max(span.end_s for span in spans))
    legend_below(figure, panels[replicas[0]])
    return figure


def _lanes(spans: list[Span]) -> dict[int, int]:
    """A row for each stay of a request in the batch of a replica, the lowest that is free; by id of the span."""
    stays: list[list[Span]] = []
    for span in spans:
        if span.state == "wait":
            continue
        last = stays[-1][-1] if stays else None
        if last and (last.request_id, last.replica, last.end_s) == (span.request_id, span.replica, span.start_s):
            stays[-1].append(span)
        else:
            stays.append([span])
    free_from: dict[int, list[float]] = {}
    lanes = {}
    for stay in sorted(stays, key=lambda stay: (stay[0].start_s, stay[0].request_id)):
        ends = free_from.setdefault(stay[0].replica, [])
        lane = next((number for number, end_s in enumerate(ends) if end_s <= stay[0].start_s), len(ends))
        ends[lane:lane + 1] = [stay[-1].end_s]  # fmt: skip
        lanes |= {id(span): lane for span in stay}
    return lanes


def _batches(axes: Axes, spans: list[Span], lanes: dict[int, int]) -> None:
    for state, colour in COLOURS.items():
        bars = [(span.start_s, span.end_s, lanes[id(span)]) for span in spans if span.state == state]
        start, end, lane = np.reshape(bars, (-1, 3)).T
        corners = [(start, lane - 0.4), (end, lane - 0.4), (end, lane + 0.4), (start, lane + 0.4)]
        axes.add_collection(PolyCollection(np.array(corners).transpose(2, 0, 1), linewidth=0, facecolor=colour,
                                           label=state))  # fmt: skip
    waits = [span for span in spans if span.state == "wait"]
    changes = sorted([(span.start_s, -1) for span in waits] + [(span.end_s, 1) for span in waits])
    time_s = [0.0, *(time_s for time_s, _ in changes)]
    axes.step(
        time_s, [0, *np.cumsum([change for _, change in changes])], where="post", label="wait (downwards)", **WAITS
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
    axes.axhline(0, color="0.8", linewidth=0.5, zorder=0)
    axes.autoscale_view()


def _arrow(figure: Figure, here: Axes, there: Axes, one: Span, two: Span, lanes: dict[int, int]) -> None:
    """From where a request leaves to where it comes; moves of waiting requests, which have no bar, from the axis."""
    ends = [(one.end_s, lanes.get(id(one), 0)), (two.start_s, lanes.get(id(two), 0))]
    figure.add_artist(ConnectionPatch(*ends, "data", "data", axesA=here, axesB=there, color=COLOURS["move"],
                                      linewidth=0.4, alpha=0.6))  # fmt: skip

"""Figure: the ANWG ranking and its supported reversals under other deadlines than the study's."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from servestudy.plotting.parts import by_region, draw_intervals, legend_above, region_axis, side_by_side
from servestudy.plotting.style import HATCHES, Context, new_figure, series
from servestudy.workload import REGIONS, SLACK_MULTIPLIER

OUTCOMES = {
    "PERSISTS": "persists",
    "DIRECTION_CHANGE": "turns around",
    "BECOMES_UNSUPPORTED": "unsupported",
    "DISAPPEARS": "disappears",
    "UNDEFINED": "undefined",
}
FILLS = ("#0b3c6f", "#d55e00", "#56b4e9", "white", "0.75")
PATTERNS = (*HATCHES, "xxxx", "\\\\\\\\")


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Two panels: tau-b of each source and multiplier with its ranking at 20, and outcomes of reversals."""
    figure = new_figure(f"ANWG under other deadlines ({SLACK_MULTIPLIER}x: the study's own)", context, height_in=5.0)
    above, below = figure.subplots(2, 1, height_ratios=(1.5, 1))
    _draw_agreement(above, tables["slo_agreement"])
    _draw_outcomes(below, tables["slo_persistence"])
    return figure


def _draw_agreement(axes: Axes, agreement: pd.DataFrame) -> None:
    """The interval of windows drawn once for both sides, and thin the study's, which draws each side by itself."""
    groups = list(agreement.groupby(["source", "multiplier"]))
    sources = list(dict.fromkeys(source for (source, _), _ in groups))
    multipliers = sorted(set(agreement["multiplier"]))
    was_run = np.isin(list(REGIONS), agreement["region"])
    for place in np.flatnonzero(~was_run):
        axes.text(place, 0.02, "not run", rotation=90, ha="center", va="bottom", fontsize=5)
    for number, ((source, multiplier), rows) in enumerate(groups):
        style = series(sources.index(source))
        style["fillstyle"] = ("full", "none", "left", "right")[multipliers.index(multiplier) % 4]
        x = side_by_side(number, len(groups), width=0.84)[was_run]
        study, paired = (by_region(rows[rows["rule"] == rule])[was_run] for rule in ("independent", "paired"))
        axes.vlines(x, study["tau_low"], study["tau_high"], color=style["color"], linewidth=0.4)
        draw_intervals(
            axes, x, paired["tau_b"], paired["tau_low"], paired["tau_high"], f"{source} {multiplier}x", style
        )
    axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)
    axes.set(ylabel=rf"$\tau_b$ with the ranking at {SLACK_MULTIPLIER}x", ylim=(min(-0.1, axes.get_ylim()[0]), 1.04))
    region_axis(axes)
    legend_above(axes, "bar: 95 % interval, same windows on both sides;\nthin: published, each side drawn by itself")


def _draw_outcomes(axes: Axes, persistence: pd.DataFrame) -> None:
    """One bar a multiplier, by the published rule; at the study's own all persist by definition."""
    outcomes = persistence[persistence["rule"] == "published"]
    if outcomes.empty:
        axes.text(0.5, 0.5, "no supported reversal to follow", transform=axes.transAxes, ha="center", va="center")
        axes.set_axis_off()
        return
    counts = pd.crosstab(outcomes["multiplier"], outcomes["outcome"]).reindex(columns=list(OUTCOMES), fill_value=0)
    places = range(len(counts))
    left = pd.Series(0, counts.index)
    for (outcome, label), fill, hatch in zip(OUTCOMES.items(), FILLS, PATTERNS, strict=True):
        style = {"color": fill, "hatch": hatch, "edgecolor": "black", "linewidth": 0.5, "height": 0.6}
        bars = axes.barh(places, counts[outcome], left=left, label=label, **style)
        texts = [str(count) if count else "" for count in counts[outcome]]
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.bar_label(bars, texts, label_type="center", fontsize=6, bbox=box)
        left = left + counts[outcome]
    axes.set_yticks(places, [f"{multiplier}x" for multiplier in counts.index])
    axes.invert_yaxis()
    axes.set_xlabel("supported reversals at 20x, by what becomes of them")
    legend_above(axes)

"""Figure: how many schedulers behave differently, and what merging those that do not does to tau-b."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from servestudy.plotting.parts import by_region, draw_intervals, draw_points, legend_above, region_axis, side_by_side
from servestudy.plotting.style import Context, new_figure, series


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Two panels: distinct schedulers by source, tau-b by source pair with and without merging."""
    figure = new_figure("Schedulers that behave differently, and ANWG agreement", context, height_in=4.8)
    above, below = figure.subplots(2, 1, sharex=True)
    _draw_counts(above, tables["distinctness"])
    _draw_agreement(below, tables["distinct_agreement"])
    region_axis(below)
    return figure


def _draw_counts(axes: Axes, distinctness: pd.DataFrame) -> None:
    sources = list(distinctness.groupby("source"))
    for number, (source, rows) in enumerate(sources):
        counts = by_region(rows.groupby("region")["n_distinct"].agg(["mean", "min", "max"]).reset_index())
        x = side_by_side(number, len(sources))
        draw_intervals(axes, x, counts["mean"], counts["min"], counts["max"], source, series(number))
    n_schedulers = distinctness["n_schedulers"].max()
    axes.axhline(n_schedulers, color="0.3", linewidth=0.8, linestyle=(0, (1, 1)))
    axes.text(-0.45, n_schedulers - 0.15, f"{n_schedulers} by name", va="top", fontsize=6)
    axes.set(ylabel="distinct schedulers\nin a window", ylim=(0, n_schedulers + 0.5))
    legend_above(axes, "mean; bar: smallest to largest over windows")


def _draw_agreement(axes: Axes, agreement: pd.DataFrame) -> None:
    pairs = list(agreement.groupby(["source_x", "source_y"]))
    for number, ((source_x, source_y), rows) in enumerate(pairs):
        taus, x, style = by_region(rows), side_by_side(number, len(pairs)), series(number)
        axes.vlines(x, taus["tau_b"], taus["tau_b_distinct"], color=style["color"], linewidth=0.9)
        draw_points(axes, x, taus["tau_b"], f"{source_x}, {source_y}", style)
        axes.plot(x, taus["tau_b_distinct"], **style | {"linestyle": "none"}, markersize=4.2, fillstyle="none")
    axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)
    axes.set(ylabel=r"Kendall $\tau_b$", ylim=(min(-0.1, axes.get_ylim()[0]), 1.04))
    legend_above(axes, "filled: all schedulers; open: equals merged")

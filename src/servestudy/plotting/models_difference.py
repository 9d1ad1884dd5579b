"""Figure: mean ANWG of slai_faithful less that of vllm_faithful under both engine models, with intervals."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.models_compared import of_both
from servestudy.plotting.parts import by_region, draw_intervals, legend_below, region_axis, side_by_side
from servestudy.plotting.style import Context, new_figure, series
from servestudy.statistics.pair_difference import PAIR


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A panel for each model, a marker for each source; sources on both sides of 0 are a reversal."""
    differences = of_both(tables, "pair_difference")
    sources = sorted(set().union(*(table["source"] for table in differences.values())))
    figure = new_figure(f"ANWG of {PAIR[0]} less {PAIR[1]} under both engine models", context, height_in=3.6)
    panels = figure.subplots(2, 1, sharex=True)
    for axes, (model, table) in zip(panels, differences.items(), strict=True):
        for number, source in enumerate(sources):
            rows = by_region(table[table["source"] == source])
            x = side_by_side(number, len(sources))
            draw_intervals(axes, x, rows["difference"], rows["low"], rows["high"], source, series(number))
        if table.empty:
            axes.text(0.5, 0.7, "not both in this run", transform=axes.transAxes, ha="center", fontsize=6)
        axes.axhline(0, color="0.4", linewidth=0.6, zorder=0)
        axes.set_title(f"{model} model (scales differ)", fontsize=7)
        axes.set_ylabel("difference of ANWG")
    region_axis(panels[1])
    legend_below(
        figure, max(panels, key=lambda axes: len(axes.lines)), note="bar: 95 % interval over resampled windows"
    )
    return figure

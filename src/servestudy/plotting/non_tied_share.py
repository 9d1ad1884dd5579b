"""Figure: share of windows in which the schedulers' ANWG differs at all, with Wilson intervals."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import by_region, draw_intervals, legend_below, of_metric, region_axis, side_by_side
from servestudy.plotting.style import Context, new_figure, series

ALL = "all"


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Points by region, one series a source and one for all."""
    shares = of_metric(tables["discriminability"], PRIMARY_METRIC)
    shares = shares[(shares["counted"] == "condition") & (shares["region"] != ALL)]
    names = [*sorted(set(shares["source"]) - {ALL}), ALL]

    figure = new_figure("Windows where the ANWG of the schedulers is not tied", context, height_in=2.9)
    axes = figure.subplots()
    for number, name in enumerate(names):
        rows = by_region(shares[shares["source"] == name])
        x = side_by_side(number, len(names))
        label = "all sources" if name == ALL else name
        n = rows["n"].max()
        label += f" (n = {n:.0f})" if n > 0 else " (undefined)"
        draw_intervals(axes, x, rows["share"], rows["low"], rows["high"], label, series(number))
    axes.set(ylabel="share not tied", ylim=(-0.04, 1.04))
    region_axis(axes)
    legend_below(figure, axes, note="bar: 95 % Wilson interval; n: windows in each region")
    return figure

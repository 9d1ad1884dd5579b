"""Figure: Kendall's tau-b and Spearman's rho of each pair of sources with their intervals, by load region."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import by_region, draw_intervals, legend_below, of_metric, region_axis, side_by_side
from servestudy.plotting.style import Context, new_figure, series

STATISTICS = {"tau": (r"Kendall $\tau_b$", "tau_b"), "rho": (r"Spearman $\rho$", "rho")}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Two panels, a series for each pair of sources."""
    agreement = of_metric(tables["agreement_intervals"], PRIMARY_METRIC)
    pairs = list(agreement.groupby(["source_x", "source_y"]))

    figure = new_figure("Agreement of ANWG rankings", context, height_in=3.3 + 0.1 * len(pairs))
    panels = figure.subplots(2, 1, sharex=True)
    for axes, (name, (label, point)) in zip(panels, STATISTICS.items(), strict=True):
        for number, ((source_x, source_y), rows) in enumerate(pairs):
            of_pair = by_region(rows)
            draw_intervals(
                axes,
                side_by_side(number, len(pairs)),
                of_pair[point],
                of_pair[f"{name}_low"],
                of_pair[f"{name}_high"],
                f"{source_x}, {source_y}",
                series(number),
            )
        axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)
        axes.set(ylabel=label, ylim=(min(-0.1, axes.get_ylim()[0]), 1.04))
    region_axis(panels[1])
    legend_below(figure, panels[0], note="bar: 95 % interval over resampled windows")
    return figure

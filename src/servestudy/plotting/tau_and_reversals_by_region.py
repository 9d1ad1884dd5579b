"""Figure: agreement of the ANWG rankings and share of reversals as the load grows."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import by_region, draw_intervals, legend_above, of_metric, region_axis, side_by_side
from servestudy.plotting.style import HATCHES, Context, new_figure, series

SUPPORTED = "SUPPORTED_PRACTICAL_REVERSAL"
UNDEFINED = "UNDEFINED_UNESTIMABLE"
COUNTED = {
    "sign change": (SUPPORTED, "UNSUPPORTED_SIGN_CHANGE_WIDE_CI", "MICROSCOPIC_SIGN_CHANGE"),
    "supported reversal": (SUPPORTED,),
    "undefined": (UNDEFINED,),
}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Two panels: tau-b over the source pairs, and classes (published rule) over pairs of schedulers and sources."""
    agreement = of_metric(tables["agreement"], PRIMARY_METRIC)
    reversals = of_metric(tables["reversals"], PRIMARY_METRIC)
    reversals = reversals[reversals["rule"] == "published"]

    figure = new_figure("Agreement of ANWG rankings and reversals by load", context, height_in=4.1)
    above, below = figure.subplots(2, 1, sharex=True)
    tau = by_region(agreement.groupby("region")["tau_b"].agg(["mean", "min", "max"]).reset_index())
    draw_intervals(above, side_by_side(0, 1), tau["mean"], tau["min"], tau["max"], "mean over source pairs", series(0))
    above.axhline(0, color="0.7", linewidth=0.6, zorder=0)
    above.set(ylabel=r"Kendall $\tau_b$", ylim=(min(-0.1, above.get_ylim()[0]), 1.04))
    legend_above(above, note="bar: smallest to largest")

    for number, (label, classes) in enumerate(COUNTED.items()):
        counted = reversals["reversal_class"].isin(classes)
        share = counted.groupby(reversals["region"]).mean().rename("share").reset_index()
        below.bar(
            side_by_side(number, len(COUNTED)),
            100 * by_region(share)["share"],
            width=0.2,
            color=series((0, 2, 1)[number])["color"],
            hatch=HATCHES[number],
            edgecolor="black",
            linewidth=0.5,
            label=label,
        )
    n = reversals.groupby("region").size().max()
    below.set_ylabel(f"share of {n} (%)")
    region_axis(below)
    legend_above(below, note="comparisons: two schedulers in two sources")
    return figure

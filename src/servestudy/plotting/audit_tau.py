"""Figure: Kendall's tau-b between the ANWG rankings of each pair of sources, by audit arm, with intervals."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.audit_parts import LINE_IN, arm_axis, arm_labels
from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import Context, new_figure, series


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A panel for each region, a marker for each pair of sources; where tau-b is undefined, the word."""
    table = tables["audit_agreement"]
    labels = arm_labels(table)
    regions = list(dict.fromkeys(table["region"]))
    pairs = list(table.groupby(["source_x", "source_y"]).groups)
    figure = new_figure("Agreement of ANWG rankings by audit arm", context, 1.3 + LINE_IN * len(labels))
    panels = figure.subplots(1, len(regions), sharey=True, sharex=True, squeeze=False)[0]
    line_of = {key: line for line, key in enumerate(labels)}
    for axes, region in zip(panels, regions, strict=True):
        for number, (source_x, source_y) in enumerate(pairs):
            rows = table[
                (table["region"] == region) & (table["source_x"] == source_x) & (table["source_y"] == source_y)
            ]
            shift = 0.5 * ((number + 0.5) / len(pairs) - 0.5)
            y = [line_of[key] + shift for key in zip(rows["switch"], rows["arm"], strict=True)]
            style = series(number)
            axes.hlines(y, rows["tau_low"], rows["tau_high"], color=style["color"], linewidth=0.8)
            label = f"{source_x}, {source_y}"
            axes.plot(rows["tau_b"], y, **style | {"linestyle": "none"}, markersize=2.6, label=label)
            for place, tau in zip(y, rows["tau_b"], strict=True):
                if pd.isna(tau):
                    axes.text(0.02, place, "undefined", color=style["color"], fontsize=4, va="center")
        axes.axvline(0, color="0.4", linewidth=0.6, zorder=0)
        axes.set_title(region.replace("_", " ").lower(), fontsize=6)
        axes.set_xlabel(r"Kendall $\tau_b$")
    panels[0].set_xlim(right=1.04)
    arm_axis(panels[0], list(labels.values()))
    for axes in panels[1:]:
        axes.tick_params(axis="y", length=0)
    legend_below(figure, panels[0], note="bar: 95 % interval over resampled windows")
    return figure

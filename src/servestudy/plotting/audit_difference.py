"""Figure: mean ANWG of slai_faithful less that of vllm_faithful, by audit arm and source, with intervals."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.audit_parts import LINE_IN, arm_axis, arm_labels
from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import Context, new_figure, series
from servestudy.statistics.pair_difference import PAIR


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A panel for each region, a marker for each source; a reversal is a line with markers on both sides of 0."""
    table = tables["audit_difference"]
    labels = arm_labels(table)
    regions, sources = (list(dict.fromkeys(table[name])) for name in ("region", "source"))
    figure = new_figure(f"ANWG of {PAIR[0]} less {PAIR[1]} by audit arm", context, 1.2 + LINE_IN * len(labels))
    panels = figure.subplots(1, len(regions), sharey=True, sharex=True, squeeze=False)[0]
    line_of = {key: line for line, key in enumerate(labels)}
    for axes, region in zip(panels, regions, strict=True):
        for number, source in enumerate(sources):
            rows = table[(table["region"] == region) & (table["source"] == source)]
            shift = 0.5 * ((number + 0.5) / len(sources) - 0.5)
            y = [line_of[key] + shift for key in zip(rows["switch"], rows["arm"], strict=True)]
            style = series(number)
            axes.hlines(y, rows["low"], rows["high"], color=style["color"], linewidth=0.8)
            axes.plot(rows["difference"], y, **style | {"linestyle": "none"}, markersize=2.6, label=source)
        axes.axvline(0, color="0.4", linewidth=0.6, zorder=0)
        axes.set_title(region.replace("_", " ").lower(), fontsize=6)
        axes.set_xlabel("difference")
    arm_axis(panels[0], list(labels.values()))
    for axes in panels[1:]:
        axes.tick_params(axis="y", length=0)
    legend_below(figure, panels[0], note="bar: 95 % interval over resampled windows")
    return figure

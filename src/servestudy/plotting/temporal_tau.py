"""Figure: agreement of the ANWG rankings of earlier and later windows of one source, by load region."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import by_region, draw_intervals, legend_above, region_axis, side_by_side
from servestudy.plotting.style import Context, new_figure, series

CORRECTED_RULE = "start_row"  # halves by place in the trace: a clock that every trace has
IN_TIME = ("EARLY", "FIRST", "BEFORE_BOUNDARY", "MIDDLE", "SECOND", "LATE", "AT_OR_AFTER_BOUNDARY")
RULE_LABELS = {
    "tercile": "thirds by time",
    "bisection": "halves by time",
    "calendar": "calendar",
    "position": "halves of the list",
    "start_row": "halves of the trace",
}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A panel for each source: the study's own splits of it, and halves by place in the trace."""
    temporal = tables["temporal"]
    temporal = temporal[temporal["published"] | (temporal["rule"] == CORRECTED_RULE)]
    sources = list(temporal.groupby("source"))
    n_series = sum(len(rows[["rule", "group_x", "group_y"]].drop_duplicates()) for _, rows in sources)

    what = "Agreement of ANWG rankings in time; bar: 95 % interval over resampled windows"
    figure = new_figure(what, context, height_in=0.9 + 1.1 * len(sources) + 0.14 * n_series)
    if not sources:
        figure.text(0.5, 0.2, "undefined: no source has windows to split", ha="center")
        return figure
    panels = figure.subplots(len(sources), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (source, rows) in zip(panels, sources, strict=True):
        splits = list(rows.groupby(["rule", "group_x", "group_y"], sort=False))
        for number, ((rule, *groups), of_split) in enumerate(splits):
            tau = by_region(of_split)
            x = side_by_side(number, len(splits), width=0.8)
            names = " and ".join(name.replace("_", " ").lower() for name in sorted(groups, key=IN_TIME.index))
            label = f"{RULE_LABELS[rule]}: {names}"
            draw_intervals(axes, x, tau["tau_b"], tau["tau_low"], tau["tau_high"], label, series(number))
        axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)
        axes.set(ylabel=r"Kendall $\tau_b$", ylim=(min(-0.1, axes.get_ylim()[0]), 1.1))
        legend_above(axes, note=source)
    region_axis(panels[-1])
    return figure

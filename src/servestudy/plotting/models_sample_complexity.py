"""Figure: how often a draw of windows recovers the ANWG ranking of all windows, under both engine models."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.models_compared import of_both
from servestudy.plotting.parts import legend_below, of_metric
from servestudy.plotting.sample_complexity import PANELS, draw_curves
from servestudy.plotting.style import Context, new_figure


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A column of panels for each model, a row for each criterion, a line for each source; bands as in the other."""
    curves = {
        model: of_metric(table, PRIMARY_METRIC).query("rule == 'published'")
        for model, table in of_both(tables, "sample_complexity").items()
    }
    sources = sorted(set().union(*(rows["source"] for rows in curves.values())))
    n_draws = max(rows["n_draws"].max() for rows in curves.values())
    figure = new_figure("Windows needed to recover the full ANWG ranking", context, height_in=4.0)
    panels = figure.subplots(len(PANELS), len(curves), sharex=True, sharey=True)
    for line, (criterion, title) in zip(panels, PANELS.items(), strict=True):
        for axes, (model, rows) in zip(line, curves.items(), strict=True):
            draw_curves(axes, rows[rows["criterion"] == criterion], sources)
            axes.set_title(f"{title}, {model}", fontsize=7)
        line[0].set_ylabel("recovery probability")
    for axes in panels[-1]:
        axes.set_xlabel("windows drawn")
    legend_below(figure, panels[0, 0], note=f"band: 95 % Wilson interval of {n_draws} draws")
    return figure

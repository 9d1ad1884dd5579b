"""Figure: the serving simulator's values against the engine's, one point a cell."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.errors import UserError
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series

PANELS = {
    "ttft_mean_s": "mean TTFT, s",
    "latency_mean_s": "mean latency, s",
    "throughput_rps": "throughput, requests/s",
    "anwg": "ANWG",
}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """One panel a metric, a series for each scheduler."""
    errors = tables["simulator_errors"]
    if errors.empty:
        raise UserError("no cell is both measured and simulated: nothing to draw")
    figure = new_figure(
        "Simulator against engine: same requests and rules, step times fitted to other windows",
        context,
        2.4,
        PAGE_WIDTH_IN,
    )
    panels = figure.subplots(1, len(PANELS))
    arms = sorted(errors["arm"].unique())
    for axes, (metric, label) in zip(panels, PANELS.items(), strict=True):
        of_metric = errors[errors["metric"] == metric]
        both = of_metric[["engine", "simulator"]].to_numpy()
        high = 1.0 if metric == "anwg" else float(np.nanmax(both))
        axes.plot([0, high], [0, high], color="0.7", linewidth=0.7, zorder=0)
        for number, arm in enumerate(arms):
            rows = of_metric[of_metric["arm"] == arm]
            style = series(number) | {"linestyle": "none"}
            axes.plot(rows["engine"], rows["simulator"], **style, markersize=2.6, label=arm.replace("_", " "))
        axes.set(xlabel=f"engine: {label}", ylabel="simulator")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(arms), frameon=False)
    return figure

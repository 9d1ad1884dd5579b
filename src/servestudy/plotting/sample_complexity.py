"""Figure: how often a draw of windows recovers the ANWG ranking of all windows (the study's figure 3)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import legend_below, of_metric
from servestudy.plotting.style import Context, new_figure, series

PANELS = {"exact": "exact order", "top1": "first scheduler"}
THRESHOLD = 0.9


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Two panels, a line for each source."""
    curves = of_metric(tables["sample_complexity"], PRIMARY_METRIC)
    curves = curves[curves["rule"] == "published"]
    sources = sorted(curves["source"].unique())
    n_draws = curves["n_draws"].max()

    figure = new_figure("Windows needed to recover the full ANWG ranking", context, height_in=2.35)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (criterion, title) in zip(panels, PANELS.items(), strict=True):
        draw_curves(axes, curves[curves["criterion"] == criterion], sources)
        axes.set(title=title, xlabel="windows drawn")
    panels[0].set_ylabel("recovery probability")
    legend_below(figure, panels[0], note=f"band: 95 % Wilson interval of {n_draws} draws")
    return figure


def draw_curves(axes: Axes, curves: pd.DataFrame, sources: Sequence[str]) -> None:
    """Lines of one criterion; the band is the uncertainty of the draws alone, not of the windows.

    Markers shrink from source to source, so that equal curves show.
    """
    for number, source in enumerate(sources):
        rows = curves[curves["source"] == source].sort_values("n_windows")
        axes.fill_between(rows["n_windows"], *_wilson(rows), color=series(number)["color"], alpha=0.25, linewidth=0)
        defined = rows["probability"].notna().any()
        label = source if defined else f"{source} (undefined)"
        axes.plot(rows["n_windows"], rows["probability"], **series(number), markersize=max(5 - number, 2), label=label)
    axes.axhline(THRESHOLD, color="0.3", linewidth=0.8, linestyle=(0, (1, 1)))
    axes.text(axes.get_xlim()[1], THRESHOLD - 0.015, f"{THRESHOLD} ", ha="right", va="top", fontsize=6)
    axes.set_ylim(-0.03, 1.03)


def _wilson(rows: pd.DataFrame) -> np.ndarray:
    """Ends [low or high, row] of the 95 % Wilson interval of each probability; NaN where it is undefined."""
    ends = np.full((2, len(rows)), np.nan)
    for place, (probability, n) in enumerate(zip(rows["probability"], rows["n_draws"], strict=True)):
        if not np.isnan(probability):
            ends[:, place] = binomtest(round(probability * n), n).proportion_ci(0.95, method="wilson")
    return ends

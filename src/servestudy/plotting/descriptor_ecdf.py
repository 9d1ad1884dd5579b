"""Figure: how the windows of each source are distributed over four descriptors."""

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import Context, new_figure, series

DESCRIPTORS = {
    "prompt_tokens_mean": "mean prompt (tokens)",
    "output_tokens_mean": "mean output (tokens)",
    "interarrival_p50_s": "median arrival gap (s)",
    "mean_arrival_rate_rps": "arrival rate (requests/s)",
}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Four panels, a step line for each source. Windows without a value are left out and counted in the panel."""
    features = tables["workload_features"]
    sources = list(features.groupby("source"))

    figure = new_figure("Windows by their descriptors", context, height_in=3.6)
    panels = figure.subplots(2, 2, sharey=True)
    for axes, (name, label) in zip(panels.flat, DESCRIPTORS.items(), strict=True):
        for number, (source, rows) in enumerate(sources):
            values = rows[name].dropna()
            style = series(number)
            del style["marker"]
            if len(values):
                axes.ecdf(values, **style, label=f"{source} ({len(rows)} windows)")
            else:
                axes.plot([], [], **style, label=f"{source} ({len(rows)} windows)")
        _scale(axes, features[name].dropna())
        n_undefined = int(features[name].isna().sum())
        if n_undefined:
            axes.text(0.97, 0.04, f"{n_undefined} undefined", transform=axes.transAxes, ha="right", fontsize=6)
        axes.set(xlabel=label, ylim=(-0.02, 1.02))
    for axes in panels[:, 0]:
        axes.set_ylabel("share of windows")
    legend_below(figure, panels[0, 0])
    return figure


def _scale(axes: Axes, values: pd.Series) -> None:
    """A logarithmic axis; where there are zeros, linear up to the power of ten below the smallest other value."""
    positive = values[values > 0]
    if positive.empty:
        return
    first, last = np.floor(np.log10(positive.min())), np.floor(np.log10(positive.max()))
    if (values <= 0).any():
        axes.set_xscale("symlog", linthresh=10**first, linscale=0.5)
        axes.set_xticks([0, *10 ** np.arange(last, first, -2)])
    else:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1,) if last - first > 1 else (1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())

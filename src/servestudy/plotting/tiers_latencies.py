"""Figure: distribution of the latencies of every system on the serving engine."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import SYSTEM_LABELS, load_label, plain_log_ticks, require

LATENCIES = {"ttft_s": "TTFT (s)", "tbt_s": "TBT (s)", "e2e_s": "E2E (s)"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A row a load, a column a latency; share of the requests of all seeds that took no longer."""
    table = tables["serving_tier_requests"]
    table = require(table[table["system"].isin(SYSTEM_LABELS)], "requests")
    loads = sorted(set(table["load"]))
    what = f"Latencies of all requests, K = {table['tiers'].iloc[0]}, {table['mix'].iloc[0]} mix"
    figure = new_figure(what, context, 1.1 + 1.7 * len(loads), PAGE_WIDTH_IN)
    panels = figure.subplots(len(loads), len(LATENCIES), squeeze=False, sharey=True)
    for row, load in zip(panels, loads, strict=True):
        for axes, (latency, text) in zip(row, LATENCIES.items(), strict=True):
            for number, (system, label) in enumerate(SYSTEM_LABELS.items()):
                values = np.sort(table.loc[(table["system"] == system) & (table["load"] == load), latency].dropna())
                share = np.arange(1, len(values) + 1) / max(1, len(values))
                style = series(number)
                axes.step(values, share, where="post", label=label, color=style["color"],
                          linestyle=style["linestyle"], linewidth=0.9)  # fmt: skip
            axes.set_xscale("log")
            plain_log_ticks(axes.xaxis)
            axes.set_xlabel(f"{text}, {load_label(load)}")
        row[0].set_ylabel("share of requests")
    legend_below(figure, panels[0, 0])
    return figure

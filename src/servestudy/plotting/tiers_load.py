"""Figure: what ours gains on the serving engine as the load grows, over the baseline and over one tier."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import CURVE, gains, level, require

METRICS = {"e2e_p99": "E2E P99", "ttft_mean": "TTFT mean", "tbt_mean": "TBT mean"}
REFERENCES = {"baseline": "over INFaaS + vLLM", "one_tier": "over one tier"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A row a comparison, a column a metric; lines are numbers of tiers, loads from left to right, the burst last."""
    figure = new_figure("Gain of ours by load, first mix", context, 4.4, PAGE_WIDTH_IN)
    panels = figure.subplots(len(REFERENCES), len(METRICS), sharex=True)
    for row, (reference, against) in zip(panels, REFERENCES.items(), strict=True):
        for axes, (metric, text) in zip(row, METRICS.items(), strict=True):
            found = require(gains(tables, "serving", reference, metric), f"{metric} on the serving engine")
            found = found[found["mix"] == found["mix"].iloc[0]]
            loads = sorted(set(found["load"]))
            numbers = sorted(set(found["tiers"]))
            for number, tiers in enumerate(numbers):
                rows = found[found["tiers"] == tiers].set_index("load").reindex(loads)
                places = [place + 0.3 * ((number + 0.5) / len(numbers) - 0.5) for place in range(len(loads))]
                error = [(rows["gain"] - rows["low"]).fillna(0), (rows["high"] - rows["gain"]).fillna(0)]
                axes.errorbar(places, rows["gain"], yerr=error, label=f"K = {tiers}", **series(number), **CURVE)
            level(axes)
            axes.set_xticks(range(len(loads)), loads)
            axes.set_ylabel(f"{text}, {against}", fontsize=6)
    for axes in panels[-1]:
        axes.set_xlabel("load, share of the capacity")
    legend_below(figure, panels[0, 0])
    return figure

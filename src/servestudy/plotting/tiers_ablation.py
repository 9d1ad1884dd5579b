"""Figure: what is left of the published speed-up when one rule is switched, everything else as published."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.style import HATCHES, PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import OURS, PRESET, RULES, require

METRICS = {"e2e_p99": "E2E P99", "ttft_mean": "TTFT mean"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Bars: speed-up over the baseline, which has the rule switched too where it reads it. First the study's rules."""
    table = tables["published_tier_gains"]
    rows = table[(table["system"] == OURS) & (table["preset"] == PRESET["published"])]
    rows = rows[(rows["reference"] == "baseline") & ~rows["variant"].str.startswith("streams")]
    switched = require(rows[rows["variant"] != RULES], "switched rules")
    first = switched.iloc[0]
    same = (rows["mix"] == first["mix"]) & (rows["requests"] == first["requests"]) & (rows["tiers"] == first["tiers"])
    rows = rows[same]
    names = [RULES, *sorted(set(switched["variant"]))]
    what = f"Speed-up of ours over INFaaS + vLLM, K = {first['tiers']}, {first['mix']}, {first['requests']:,} requests"
    figure = new_figure(what, context, 0.8 + 0.2 * len(names), PAGE_WIDTH_IN)
    for axes, (number, (metric, text)) in zip(
        figure.subplots(1, 2, sharey=True), enumerate(METRICS.items()), strict=True
    ):
        gain = rows[rows["metric"] == metric].set_index("variant")["gain"].reindex(names)
        lines = np.arange(len(names))
        style = {"color": series(2)["color"], "edgecolor": "black", "linewidth": 0.4, "hatch": HATCHES[number]}
        axes.barh(lines, gain, height=0.6, **style)
        for line, value in zip(lines, gain, strict=True):
            axes.text(value, line, f" {value:.2f}", va="center", fontsize=6)
        level_at = gain[RULES]
        axes.axvline(1, color="0.3", linewidth=0.7)
        axes.axvline(level_at, color="0.5", linewidth=0.7, linestyle=":")
        axes.set_yticks(lines, [name.replace(",", "\n") for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.margins(x=0.15)
        axes.set_xlabel(f"speed-up of {text} (1: none; dotted: as published)")
    return figure

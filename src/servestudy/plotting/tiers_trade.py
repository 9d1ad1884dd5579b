"""Figure: time to first token bought with time between tokens."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import MODELS, draw_curve, gains, k_axis, level, load_label, require

METRICS = {"ttft_mean": "TTFT mean", "tbt_mean": "TBT mean", "tbt_published_mean": "TBT mean as published"}

TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A column a variant; speed-ups over the baseline on a logarithmic axis, the first mix and volume."""
    figure = new_figure(
        "First tokens sooner, further tokens later: ours over INFaaS + vLLM", context, 2.9, PAGE_WIDTH_IN
    )
    panels = figure.subplots(1, 2)
    for axes, model in zip(panels, MODELS, strict=True):
        first = None
        for number, (metric, text) in enumerate(METRICS.items()):
            found = require(gains(tables, model, "baseline", metric), f"{metric} of the {model} variant")
            found = found[found["load"] == "burst"]
            if first is None:
                first = found.sort_values("mix", key=lambda mixes: mixes != "uniform", kind="stable").iloc[0]
            rows = found[(found["mix"] == first["mix"]) & (found["requests"] == first["requests"])]
            if model == "serving" and metric == "tbt_published_mean":
                continue  # a preempted request keeps its tokens there, so both are the same
            draw_curve(axes, rows, text, series(number))
        level(axes)
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(f"{model}: {first['mix']}, {first['requests']:,} requests, {load_label('burst')}")
        axes.set_ylabel("speed-up over INFaaS + vLLM")
        k_axis(axes, rows["tiers"])
    legend_below(figure, panels[0])
    return figure

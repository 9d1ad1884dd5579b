"""Figure: E2E speed-up of ours over the study's baseline by number of tiers, both variants."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_above
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import MODELS, draw_curve, gains, k_axis, level, load_label, require

METRICS = {"e2e_p99": "E2E P99", "e2e_mean": "E2E mean"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A row a variant, a column a statistic; lines are mix and volume, or load."""
    figure = new_figure("Speed-up of ours over INFaaS + vLLM", context, 4.6, PAGE_WIDTH_IN)
    panels = figure.subplots(2, 2)
    for row, model in zip(panels, MODELS, strict=True):
        for axes, (metric, text) in zip(row, METRICS.items(), strict=True):
            found = require(gains(tables, model, "baseline", metric), f"{metric} of the {model} variant")
            curves = list(found.groupby(["mix", "requests"] if model == "published" else ["mix", "load"]))
            for number, ((mix, other), rows) in enumerate(curves):
                name = f"{other:,}" if model == "published" else load_label(other)
                shift = 0.3 * ((number + 0.5) / len(curves) - 0.5)
                draw_curve(axes, rows, f"{mix}, {name}", series(number), shift)
            level(axes)
            axes.set_ylabel(f"{text}, {model}")
            k_axis(axes, found["tiers"])
        legend_above(row[0])
    return figure

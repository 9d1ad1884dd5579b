"""Figure: the effect of tiers alone, K tiers against the same requests as one tier, both variants."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_above
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import (
    MODELS,
    PAIRED,
    draw_curve,
    gains,
    k_axis,
    level,
    load_label,
    require,
)

METRICS = {"e2e_p99": "E2E P99", "ttft_mean": "TTFT mean", "slo_attainment": "SLO attainment"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Paired seeds, with 95 % intervals. Ratios above 1, and differences of attainment above 0, speak for tiers."""
    figure = new_figure("K tiers against the same requests as one tier, paired", context, 4.4, PAGE_WIDTH_IN)
    panels = figure.subplots(2, 3)
    for row, model in zip(panels, MODELS, strict=True):
        for axes, (metric, text) in zip(row, METRICS.items(), strict=True):
            found = require(gains(tables, model, "one_tier", metric, PAIRED[model]), f"paired seeds of {model}")
            curves = list(found.groupby(["mix", "load", "requests"]))
            for number, ((mix, load, _), rows) in enumerate(curves):
                shift = 0.3 * ((number + 0.5) / len(curves) - 0.5)
                draw_curve(axes, rows, f"{mix}, {load_label(load)}", series(number), shift)
            is_ratio = metric != "slo_attainment"
            level(axes, float(is_ratio))
            axes.set_ylabel(f"{text}, {'ratio' if is_ratio else 'difference'}, {model}")
            k_axis(axes, found["tiers"])
        legend_above(row[1])
    return figure

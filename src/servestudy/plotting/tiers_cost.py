"""Figure: the study's cost per latency, which is the P99 speed-up again, beside what a run really costs."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import (
    MODELS,
    PRESET,
    REAL_KV_BLOCKS,
    RULES,
    SYSTEM_LABELS,
    gains,
    k_axis,
    level,
    require,
)

SYSTEMS = {name: SYSTEM_LABELS[name] for name in ("infaas_vllm", "ours_one_tier", "ours")}
COSTS = {"gpu_busy_s": "busy GPU time (s)", "usd": "paid for all GPUs ($)"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A row a variant, in the burst with the first mix and volume; means over seeds. Left: 1 - 1 / S of E2E P99."""
    figure = new_figure("Cost per latency and true cost by number of tiers, burst", context, 4.6, PAGE_WIDTH_IN)
    panels = figure.subplots(2, 1 + len(COSTS))
    for row, model in zip(panels, MODELS, strict=True):
        found = gains(tables, model, "baseline", "e2e_p99")
        found = require(found[found["load"] == "burst"], f"the burst of {model}")
        first = found.sort_values("mix", key=lambda mixes: mixes != "uniform", kind="stable").iloc[0]
        found = found[(found["mix"] == first["mix"]) & (found["requests"] == first["requests"])]
        row[0].plot(found["tiers"], 1 - 1 / found["gain"], **series(2), markersize=3, linewidth=0.9)
        level(row[0], 0.0)
        row[0].set_ylabel(f"gain in cost per latency, {model}", fontsize=6)
        k_axis(row[0], found["tiers"])
        table = tables[f"{model}_tier_metrics"]
        table = table[(table["preset"] == PRESET[model]) & (table["variant"] == RULES) & (table["load"] == "burst")]
        table = table[(table["tier"] == -1) & (table["mix"] == first["mix"]) & (table["requests"] == first["requests"])]
        if model == "serving":
            table = table[table["kv_blocks"] == REAL_KV_BLOCKS]
        for axes, (cost, text) in zip(row[1:], COSTS.items(), strict=True):
            for number, (system, label) in enumerate(SYSTEMS.items()):
                mean = table[table["system"] == system].groupby("tiers")[cost].mean()
                axes.plot(mean.index, mean, label=label, **series(number), markersize=3, linewidth=0.9)
            axes.set_ylim(0, 1.1 * axes.dataLim.ymax)
            axes.set_ylabel(f"{text}, {model}", fontsize=6)
            k_axis(axes, table["tiers"])
    legend_below(figure, panels[0, 1])
    return figure

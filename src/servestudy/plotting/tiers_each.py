"""Figure: what each tier gets on the serving engine, ours with the most tiers that were run and binary Llumnix."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import PRESET, REAL_KV_BLOCKS, RULES, SYSTEM_LABELS, load_label, require

SYSTEMS = {name: SYSTEM_LABELS[name] for name in ("ours", "ours_one_tier", "llumnix24", "infaas_vllm")}
COLUMNS = {"ttft_p99_s": "TTFT P99 (s)", "slo_attainment": "SLO attainment", "longest_wait_s": "longest wait (s)"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A row a load, a column a measure; means over seeds, tier 0 at the left."""
    table = tables["serving_tier_metrics"]
    table = table[(table["preset"] == PRESET["serving"]) & (table["variant"] == RULES) & (table["tier"] >= 0)]
    table = table[(table["kv_blocks"] == REAL_KV_BLOCKS) & table["system"].isin(SYSTEMS)]
    table = require(table[table["mix"] == table["mix"].iloc[0]] if len(table) else table, "tiers")
    k = 4 if (table["tiers"] == 4).any() else int(table["tiers"].max())
    table = table[table["tiers"] == k]
    loads = sorted(set(table["load"]))
    loads = [load for load in loads if load in (loads[-2], loads[-1])] if len(loads) > 1 else loads
    what = f"What each of {k} tiers gets, {table['mix'].iloc[0]} mix"
    figure = new_figure(what, context, 0.9 + 1.7 * len(loads), PAGE_WIDTH_IN)
    panels = figure.subplots(len(loads), 3, squeeze=False, sharex=True)
    for row, load in zip(panels, loads, strict=True):
        for axes, (measure, text) in zip(row, COLUMNS.items(), strict=True):
            for number, (system, label) in enumerate(SYSTEMS.items()):
                rows = table[(table["system"] == system) & (table["load"] == load)]
                mean = rows.groupby("tier")[measure].mean()
                axes.plot(mean.index, mean, label=label, **series(number), markersize=3, linewidth=0.9)
            axes.set_ylabel(f"{text}, {load_label(load)}")
            axes.set_xticks(range(k))
            if measure != "slo_attainment":
                axes.set_yscale("log")
    for axes in panels[-1]:
        axes.set_xlabel("tier (0: most important)")
    legend_below(figure, panels[0, 0])
    return figure

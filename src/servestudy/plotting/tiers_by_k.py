"""Figure: the first and the last tier by number of tiers, ours on the serving engine."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import (
    OURS,
    PRESET,
    REAL_KV_BLOCKS,
    RULES,
    k_axis,
    load_label,
    plain_log_ticks,
    require,
)

COLUMNS = {"ttft_p99_s": "TTFT P99 (s)", "tbt_p99_s": "TBT P99 (s)", "slo_attainment": "SLO attainment"}
WIDE = 5.0  # a logarithmic axis from this ratio on


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A row a load, a column a measure; means over seeds. Targets of the tiers between depend on K."""
    table = tables["serving_tier_metrics"]
    table = table[(table["preset"] == PRESET["serving"]) & (table["variant"] == RULES) & (table["system"] == OURS)]
    table = table[table["kv_blocks"] == REAL_KV_BLOCKS]
    table = require(table[table["mix"] == table["mix"].iloc[0]] if len(table) else table, "ours")
    loads = sorted(set(table["load"]))
    what = f"First and last tier by number of tiers, ours, {table['mix'].iloc[0]} mix"
    figure = new_figure(what, context, 0.9 + 1.4 * len(loads), PAGE_WIDTH_IN)
    panels = figure.subplots(len(loads), len(COLUMNS), squeeze=False, sharex=True)
    which = {
        "all requests": table["tier"] == -1,
        "tier 0": table["tier"] == 0,
        "last tier": table["tier"] == table["tiers"] - 1,
    }
    for row, load in zip(panels, loads, strict=True):
        for axes, (measure, text) in zip(row, COLUMNS.items(), strict=True):
            for number, (label, of_tier) in enumerate(which.items()):
                mean = table[of_tier & (table["load"] == load)].groupby("tiers")[measure].mean()
                axes.plot(mean.index, mean, label=label, **series(number), markersize=3, linewidth=0.9)
            axes.set_ylabel(f"{text}, {load_label(load)}", fontsize=6)
            if measure == "slo_attainment":
                axes.set_ylim(-0.03, 1.03)
            elif axes.dataLim.ymax > WIDE * axes.dataLim.ymin:
                axes.set_yscale("log")
                plain_log_ticks(axes.yaxis)
            k_axis(axes, table["tiers"])
    legend_below(figure, panels[0, 0])
    return figure

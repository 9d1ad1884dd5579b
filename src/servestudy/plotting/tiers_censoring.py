"""Figure: what the study's limit of 60 s leaves out of its latencies."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import HATCHES, PAGE_WIDTH_IN, Context, new_figure, series
from servestudy.plotting.tiers_parts import PRESET, RULES, SYSTEM_LABELS, require

SYSTEMS = {name: SYSTEM_LABELS[name] for name in ("infaas_vllm", "ours")}
LIMITS = {RULES: "60 s", "time_limit_s=inf": "no limit"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Left: requests completed within the limit, by volume. Right: E2E P99 of the completed ones."""
    table = tables["published_tier_metrics"]
    table = table[(table["preset"] == PRESET["published"]) & (table["tier"] == -1) & table["system"].isin(SYSTEMS)]
    table = table[table["variant"].isin(LIMITS)]
    table = require(table[table["mix"] == table["mix"].iloc[0]] if len(table) else table, "the burst")
    k = 4 if (table["tiers"] == 4).any() else int(table["tiers"].max())
    table = table[table["tiers"] == k]
    cells = [
        (requests, variant)
        for variant in LIMITS
        for requests in sorted(set(table["requests"]))
        if len(table[(table["variant"] == variant) & (table["requests"] == requests)])
    ]
    figure = new_figure(f"What the limit of 60 s leaves out, K = {k}", context, 2.6, PAGE_WIDTH_IN)
    left, right = figure.subplots(1, 2)
    for axes, column, text in ((left, "completed", "requests completed"), (right, "e2e_p99_s", "E2E P99 of them (s)")):
        for number, (system, label) in enumerate(SYSTEMS.items()):
            of_system = table[table["system"] == system].groupby(["requests", "variant"])[column].mean()
            values = [of_system.get(cell, float("nan")) for cell in cells]
            places = [place + 0.36 * (number - 0.5) for place in range(len(cells))]
            style = {"color": series(2 * number)["color"], "hatch": HATCHES[number], "edgecolor": "black"}
            axes.bar(places, values, width=0.34, label=label, linewidth=0.4, **style)
            for place, value in zip(places, values, strict=True):
                axes.text(place, value, f"{value:,.0f}", ha="center", va="bottom", fontsize=5.5)
        axes.set_xticks(range(len(cells)), [f"{requests:,}\n{LIMITS[variant]}" for requests, variant in cells])
        axes.set_ylabel(text)
        axes.margins(y=0.12)
    legend_below(figure, left)
    return figure

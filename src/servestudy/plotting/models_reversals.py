"""Figure: reversals of the ANWG ranking under both engine models, and how many of them are the same."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.models_compared import Reversals, of_both, published_rule, supported_reversals
from servestudy.plotting.parts import legend_below, of_metric, print_matrix, region_axis
from servestudy.plotting.reversal_matrix import CLASS_LABELS
from servestudy.plotting.style import HATCHES, Context, new_figure, series
from servestudy.workload import REGIONS


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """A matrix of counts for each model, by the published rule; below them the supported reversals in three parts."""
    reversals = of_both(tables, "reversals")
    counts = {model: _counts(of_metric(table, PRIMARY_METRIC)) for model, table in reversals.items()}
    most = max(int(matrix.sum().max()) for matrix in counts.values())
    what = f"Reversal classes by ANWG under both engine models, {most} comparisons a region"
    figure = new_figure(what, context, height_in=5.2)
    *matrices, bars = figure.subplots(3, 1, sharex=True, height_ratios=[5, 5, 4])
    for axes, (model, matrix) in zip(matrices, counts.items(), strict=True):
        print_matrix(axes, matrix.astype(float), matrix.to_numpy().astype(str), limits=(0, most), cmap="Blues")
        axes.set_yticks(range(len(CLASS_LABELS)), CLASS_LABELS.values(), fontsize=6)
        axes.set_title(f"{model} model", fontsize=7)
    _draw_parts(bars, supported_reversals(reversals))
    region_axis(bars)
    legend_below(figure, bars)
    return figure


def _draw_parts(axes: Axes, found: Reversals) -> None:
    """Stacked bars of the supported reversals, by region: under both models, under one alone."""
    parts = {
        "both models": found.both,
        "published only": found.published - found.both,
        "serving only": found.serving - found.both,
    }
    bottom = np.zeros(len(REGIONS))
    for place, (label, keys) in enumerate(parts.items()):
        number = np.array([sum(key[0] == region for key in keys) for region in REGIONS], dtype=float)
        style = {"color": series((0, 1, 2)[place])["color"], "hatch": HATCHES[place]}
        axes.bar(
            range(len(REGIONS)),
            number,
            bottom=bottom,
            width=0.6,
            label=label,
            edgecolor="black",
            linewidth=0.4,
            **style,
        )
        for x in np.flatnonzero(number):
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            axes.text(x, bottom[x] + number[x] / 2, f"{number[x]:.0f}", ha="center", va="center", fontsize=5, bbox=box)
        bottom += number
    axes.set(ylabel="supported\nreversals", ylim=(0, max(1.0, 1.05 * bottom.max())))
    axes.set_title("the same or others?", fontsize=7)


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    rows = published_rule(rows)
    counts = pd.crosstab(rows["reversal_class"], rows["region"])
    return counts.reindex(index=list(CLASS_LABELS), columns=list(REGIONS), fill_value=0)

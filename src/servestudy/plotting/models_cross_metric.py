"""Figure: agreement of the rankings by each two metrics, the published model against the serving model."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import METRICS
from servestudy.models_compared import of_both
from servestudy.plotting.metric_tau_map import print_metric_pairs
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure

NAMES = [metric.name for metric in METRICS]


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Means of tau-b over sources and load regions: published below the diagonal, serving above it."""
    agreement = of_both(tables, "cross_metric_agreement")
    pairs = {
        model: {frozenset(pair): rows["tau_b"] for pair, rows in table.groupby(["metric_a", "metric_b"])}
        for model, table in agreement.items()
    }
    colours = pd.DataFrame(np.nan, NAMES, NAMES)
    texts = np.full(colours.shape, "\u2013", dtype=object)
    for row, column in np.ndindex(colours.shape):
        if row != column:
            model = "published" if row > column else "serving"
            taus = pairs[model].get(frozenset([NAMES[row], NAMES[column]]), pd.Series(dtype=float))
            colours.iat[row, column] = taus.mean()
            n_undefined = int(taus.isna().sum())
            mean = f"{taus.mean():.2f}" if taus.notna().any() else "undef."
            texts[row, column] = mean + (f"\n({n_undefined})" if n_undefined and taus.notna().any() else "")

    n_conditions = max(len(table[["source", "region"]].drop_duplicates()) for table in agreement.values())
    what = (
        f"Agreement of the rankings by two metrics, mean over {n_conditions} conditions (source, load region); below"
        " the diagonal: published model; above: serving model; in brackets: undefined conditions, left out"
    )
    figure = new_figure(what, context, height_in=4.2, width_in=PAGE_WIDTH_IN)
    print_metric_pairs(figure, colours, texts)
    return figure

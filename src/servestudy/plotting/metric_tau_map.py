"""Figure: agreement of the rankings by each two metrics, over all sources and load regions."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import METRICS
from servestudy.plotting.parts import print_matrix
from servestudy.plotting.style import PAGE_WIDTH_IN, Context, new_figure

NAMES = [metric.name for metric in METRICS]


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Below the diagonal the mean of tau-b, above it the smallest and largest; undefined conditions are counted."""
    agreement = tables["cross_metric_agreement"]
    n_conditions = len(agreement[["source", "region"]].drop_duplicates())
    pairs = {frozenset(pair): rows["tau_b"] for pair, rows in agreement.groupby(["metric_a", "metric_b"])}
    colours = pd.DataFrame(np.nan, NAMES, NAMES)
    texts = np.full(colours.shape, "", dtype=object)
    for row, column in np.ndindex(colours.shape):
        taus = pairs.get(frozenset([NAMES[row], NAMES[column]]), pd.Series(dtype=float))
        if row == column:
            texts[row, column] = "\u2013"
        elif taus.notna().any():
            colours.iat[row, column] = taus.mean()
            ends = f"{taus.min():.2f} to\n{taus.max():.2f}"
            texts[row, column] = ends if row < column else f"{taus.mean():.2f}" + _undefined(taus)
        else:
            texts[row, column] = "undef."

    what = (
        f"Agreement of the rankings by two metrics over {n_conditions} conditions (source, load region); below the"
        " diagonal: mean; above: smallest to largest; in brackets: undefined conditions, left out"
    )
    figure = new_figure(what, context, height_in=4.4, width_in=PAGE_WIDTH_IN)
    print_metric_pairs(figure, colours, texts)
    return figure


def print_metric_pairs(figure: Figure, colours: pd.DataFrame, texts: np.ndarray) -> None:
    """A map [metric, metric] of tau-b with its texts; metrics are named on one side and numbered on both."""
    axes = figure.subplots()
    image = print_matrix(axes, colours, texts, limits=(-1, 1), fontsize=6)
    axes.set_xticks(range(len(NAMES)), range(1, len(NAMES) + 1))
    axes.set_yticks(range(len(NAMES)), [f"{short_name(name)}  {place}" for place, name in enumerate(NAMES, 1)])
    axes.set_xlabel("metric, by its number")
    figure.colorbar(image, ax=axes, label=r"mean of Kendall $\tau_b$", pad=0.01)


def short_name(name: str) -> str:
    """A metric as a label."""
    return "ANWG" if name == NAMES[0] else name.replace("_", " ").replace("ttft", "TTFT").replace("slo", "SLO")


def _undefined(taus: pd.Series) -> str:
    return f"\n({taus.isna().sum()})" if taus.isna().any() else ""

"""Figure: which features of a window tell the sources apart (random forest, one stratum held out at a time)."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.plotting.style import Context, new_figure, series

SHOWN = 12


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """The features with the largest permutation importance: that, and the accuracy with the feature alone."""
    drivers = tables["separability_drivers"]
    by_item = {change: rows.set_index("item") for change, rows in drivers.groupby("change")}
    by_item["permuted"]["alone"] = by_item["alone"]["balanced_accuracy_mean"]  # breaks ties, as in the study
    permuted = by_item["permuted"].sort_values(["fall", "alone"], ascending=False, kind="stable")
    n_features, permuted = len(permuted), permuted.head(SHOWN)
    alone = by_item["alone"].loc[permuted.index]
    full = by_item["none"].loc["all"]

    what = (
        f"Features that tell the sources apart: {len(permuted)} of {n_features} with the largest importance,"
        f" random forest; bar: sd of the accuracy over {full['folds']} held-out strata"
    )
    figure = new_figure(what, context, height_in=3.3)
    left, right = figure.subplots(1, 2, sharey=True)
    y = np.arange(len(permuted))
    left.errorbar(permuted["fall"], y, xerr=permuted["balanced_accuracy_sd"], **_style(0))
    left.axvline(0, color="0.7", linewidth=0.6, zorder=0)
    left.set_xlabel("balanced\naccuracy lost\nif permuted")
    right.errorbar(alone["balanced_accuracy_mean"], y, xerr=alone["balanced_accuracy_sd"], **_style(1))
    right.axvline(full["balanced_accuracy_mean"], color="0.3", linewidth=0.8, linestyle=(0, (1, 1)))
    right.set(
        xlabel="balanced\naccuracy alone\n(dotted: with all)",
        xlim=(min(0.5, alone["balanced_accuracy_mean"].min() - 0.1), 1.05),
    )
    for axes, values in ((left, permuted["fall"]), (right, alone["balanced_accuracy_mean"])):
        for place in y[values.isna()]:
            axes.text(0, place, "undefined", va="center", fontsize=6)
    left.set_yticks(y, permuted.index, fontsize=5.5)
    left.set_ylim(len(permuted) - 0.5, -0.5)
    return figure


def _style(number: int) -> dict:
    return series(number) | {"linestyle": "none", "markersize": 3.2, "elinewidth": 0.9, "capsize": 1.5}

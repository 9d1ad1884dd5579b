"""Figure: which pairs of schedulers change their order between two sources, and how often."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import of_metric, print_matrix
from servestudy.plotting.style import Context, new_figure

SUPPORTED = "SUPPORTED_PRACTICAL_REVERSAL"
UNDEFINED = "UNDEFINED_UNESTIMABLE"
SIGN_CHANGES = (SUPPORTED, "UNSUPPORTED_SIGN_CHANGE_WIDE_CI", "MICROSCOPIC_SIGN_CHANGE")


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Below the diagonal all sign changes, above it the supported reversals, by the published rule.

    A pair of schedulers that is undefined in all comparisons is hatched.
    """
    rows = of_metric(tables["reversals"], PRIMARY_METRIC)
    rows = rows[rows["rule"] == "published"]
    names = sorted(set(rows["scheduler_a"]) | set(rows["scheduler_b"]))
    n_comparisons = len(rows[["region", "source_x", "source_y"]].drop_duplicates())
    counts = pd.DataFrame(np.nan, names, names)
    texts = np.full(counts.shape, "\u2013", dtype=object)
    for pair, classes in rows.groupby(["scheduler_a", "scheduler_b"])["reversal_class"]:
        first, second = sorted(map(names.index, pair))
        for place, counted in {(first, second): (SUPPORTED,), (second, first): SIGN_CHANGES}.items():
            if (classes != UNDEFINED).any():
                counts.iat[place] = classes.isin(counted).sum()
                texts[place] = f"{counts.iat[place]:.0f}"
            else:
                texts[place] = "undef."

    what = (
        f"Scheduler pairs that change their order by ANWG in {n_comparisons} comparisons (source pair,"
        " load region); above the diagonal: supported; below: all sign changes"
    )
    figure = new_figure(what, context, height_in=3.5)
    axes = figure.subplots()
    print_matrix(axes, counts, texts, limits=(0, n_comparisons), cmap="Blues", fontsize=6)
    axes.set_xticks(range(len(names)), range(1, len(names) + 1))
    axes.set_yticks(range(len(names)), [f"{name}  {place}" for place, name in enumerate(names, 1)], fontsize=5.5)
    axes.set_xlabel("scheduler, by its number")
    return figure

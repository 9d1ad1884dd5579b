"""What the figures of the audit share: one line an arm, from the top in the order of the analysis."""

import pandas as pd
from matplotlib.axes import Axes

LINE_IN = 0.24
"""Height of a line."""


def arm_labels(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Labels of the arms, by (switch, arm); the run itself first."""
    keys = dict.fromkeys(table[["switch", "arm"]].itertuples(index=False, name=None))
    return {key: f"{key[0]}\n= {key[1]}" if key[0] else "the run itself" for key in keys}


def arm_axis(axes: Axes, labels: list[str]) -> None:
    """Arms from 0 downwards along y."""
    axes.set_yticks(range(len(labels)), labels, fontsize=5, linespacing=1.0)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for place in range(1, len(labels)):
        axes.axhline(place - 0.5, color="0.88", linewidth=0.4, zorder=0)

"""Figure: agreement of the ANWG rankings, source pairs by load regions (the study's figure 1)."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.style import new_figure, save
from servestudy.statistics import agreement as agreement_table
from servestudy.tables import read_table
from servestudy.workload import REGIONS

LUMINANCE = (0.299, 0.587, 0.114)  # of red, green, blue


def draw(agreement_file: Path | str, title: str, out: Iterable[Path | str]) -> Figure:
    """Draw the heat map of Kendall's tau-b and save it to each path of `out`. Undefined cells are hatched."""
    agreement = read_table(agreement_file, agreement_table.SCHEMA).to_pandas()
    agreement = agreement[agreement["metric"] == PRIMARY_METRIC]
    tau = agreement.pivot(index=["source_x", "source_y"], columns="region", values="tau_b")[list(REGIONS)]
    n_schedulers = agreement["n_schedulers"].max()

    figure = new_figure(height_in=1.1 + 0.34 * len(tau))
    axes = figure.subplots()
    axes.set_facecolor("white")
    axes.patch.set_hatch("////")
    axes.patch.set_edgecolor("0.6")
    scale = mpl.colors.Normalize(min(0.0, np.nanmin(tau.to_numpy(), initial=0.0)), 1.0)
    image = axes.imshow(tau, cmap="cividis", norm=scale, aspect="auto")
    for row, column in np.ndindex(tau.shape):
        value = tau.iat[row, column]
        text = "undefined" if np.isnan(value) else f"{value:.2f}"
        on_dark = not np.isnan(value) and np.dot(image.cmap(scale(value))[:3], LUMINANCE) < 0.5
        axes.text(column, row, text, ha="center", va="center", color="white" if on_dark else "black")
    labels = [f"{name.replace('_', chr(10)).lower()}\n{multiple:g}" for name, multiple in REGIONS.items()]
    axes.set_xticks(range(len(REGIONS)), labels)
    axes.set_yticks(range(len(tau)), [f"{x}\n{y}" for x, y in tau.index])
    axes.tick_params(length=0)
    axes.set_xlabel("load region, multiple of the reference load")
    figure.colorbar(image, ax=axes, label=r"Kendall $\tau_b$", pad=0.02)
    figure.suptitle(f"Agreement of ANWG rankings, {n_schedulers} schedulers, published model\n{title}", fontsize=7.5)
    save(figure, out)
    return figure

"""Figure: agreement of the ANWG rankings, source pairs by load regions (the study's figure 1)."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import of_metric, print_matrix, region_axis
from servestudy.plotting.style import Context, new_figure
from servestudy.workload import REGIONS


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Heat map of Kendall's tau-b. Undefined cells are hatched."""
    agreement = of_metric(tables["agreement"], PRIMARY_METRIC)
    tau = agreement.pivot(index=["source_x", "source_y"], columns="region", values="tau_b")
    tau = tau.reindex(columns=list(REGIONS))
    what = f"Agreement of ANWG rankings, {agreement['n_schedulers'].max()} schedulers"

    figure = new_figure(what, context, height_in=1.6 + 0.34 * len(tau))
    axes = figure.subplots()
    texts = [["undef." if np.isnan(value) else f"{value:.2f}" for value in row] for row in tau.to_numpy()]
    image = print_matrix(axes, tau, texts, fontsize=6, limits=(min(0.0, np.nanmin(tau.to_numpy(), initial=0.0)), 1.0))
    region_axis(axes)
    axes.set_yticks(range(len(tau)), [f"{x}\n{y}" for x, y in tau.index])
    figure.colorbar(image, ax=axes, label=r"Kendall $\tau_b$", location="bottom", aspect=40)
    return figure

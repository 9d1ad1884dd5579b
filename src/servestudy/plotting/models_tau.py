"""Figure: agreement of the ANWG rankings under both engine models: between sources, and between the models."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.models_compared import of_both, tau_between_models
from servestudy.plotting.parts import print_matrix, region_axis
from servestudy.plotting.style import Context, new_figure
from servestudy.workload import REGIONS

MARK = "*"


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Three heat maps of Kendall's tau-b with one scale. Undefined cells are hatched."""
    pairs = {
        f"{model} model, two sources": _between_sources(t)
        for model, t in of_both(tables, "agreement_intervals").items()
    }
    between = tau_between_models(of_both(tables, "ranking")).assign(uncertain=False)
    panels = {**pairs, "same source, published against serving": between.set_index("source")}
    panels = {title: rows for title, rows in panels.items() if len(rows)}
    maps = {title: _map(rows, "tau_b") for title, rows in panels.items()}
    lowest = min([0.0, *(np.nanmin(tau.to_numpy(), initial=0.0) for tau in maps.values())])

    what = f"Agreement of ANWG rankings under both engine models ({MARK}: the 95 % interval holds 0)"
    figure = new_figure(what, context, height_in=1.7 + sum(0.2 + 0.27 * len(tau) for tau in maps.values()))
    axes = figure.subplots(
        len(maps), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": [len(tau) for tau in maps.values()]}
    )[:, 0]
    for panel, (title, tau) in zip(axes, maps.items(), strict=True):
        uncertain = _map(panels[title], "uncertain")
        texts = np.where(tau.isna(), "undef.", tau.map("{:.2f}".format) + np.where(uncertain == True, MARK, ""))  # noqa: E712
        image = print_matrix(panel, tau, texts, fontsize=6, limits=(lowest, 1.0))
        panel.set_yticks(range(len(tau)), tau.index, fontsize=6)
        panel.set_title(title, fontsize=7)
    region_axis(axes[-1])
    figure.colorbar(image, ax=axes, label=r"Kendall $\tau_b$", location="bottom", aspect=40)
    return figure


def _between_sources(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[table["metric"] == PRIMARY_METRIC]
    return rows.assign(uncertain=(rows["tau_low"] <= 0) & (rows["tau_high"] >= 0)).set_index(
        rows["source_x"] + "\n" + rows["source_y"]
    )


def _map(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Values by source pair (or source) and region; a region without a row is NaN."""
    lines = list(dict.fromkeys(rows.index))
    return rows.pivot(columns="region", values=value).reindex(index=lines, columns=list(REGIONS))

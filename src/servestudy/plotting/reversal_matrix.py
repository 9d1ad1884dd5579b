"""Figure: how many pairs of schedulers fall into each reversal class, by load region (the study's figure 2)."""

import pandas as pd
from matplotlib.figure import Figure

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.parts import of_metric, print_matrix, region_axis
from servestudy.plotting.style import Context, new_figure
from servestudy.workload import REGIONS

CLASS_LABELS = {
    "SUPPORTED_PRACTICAL_REVERSAL": "supported\npractical reversal",
    "UNSUPPORTED_SIGN_CHANGE_WIDE_CI": "sign change,\nwide interval",
    "MICROSCOPIC_SIGN_CHANGE": "microscopic\nsign change",
    "STABLE_NO_SIGN_CHANGE": "no sign change",
    "UNDEFINED_UNESTIMABLE": "undefined",
}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Matrix of counts by the published rule; where the oriented rule counts otherwise, its count in brackets."""
    reversals = of_metric(tables["reversals"], PRIMARY_METRIC)
    counts = {rule: _counts(reversals[reversals["rule"] == rule]) for rule in ("published", "oriented")}
    shown, oriented = counts["published"], counts["oriented"]
    texts = [
        [f"{n}" if n == other else f"{n}\n[{other}]" for n, other in zip(*rows, strict=True)]
        for rows in zip(shown.to_numpy(), oriented.to_numpy(), strict=True)
    ]
    n = int(shown.sum().max())
    what = f"Reversal classes by ANWG, {n} comparisons a region"
    if not shown.equals(oriented):
        what += "; [ ]: by the oriented rule, where it differs"

    figure = new_figure(what, context, height_in=2.5)
    axes = figure.subplots()
    print_matrix(axes, shown.astype(float), texts, limits=(0, n), cmap="Blues")
    region_axis(axes)
    axes.set_yticks(range(len(CLASS_LABELS)), CLASS_LABELS.values())
    return figure


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    counts = pd.crosstab(rows["reversal_class"], rows["region"])
    return counts.reindex(index=list(CLASS_LABELS), columns=list(REGIONS), fill_value=0)

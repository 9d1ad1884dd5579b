"""Figure: supported reversals of the run that each arm of the audit keeps or loses, and those that it adds."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from servestudy.audit.values import RUN
from servestudy.plotting.audit_parts import LINE_IN, arm_axis, arm_labels
from servestudy.plotting.parts import legend_below
from servestudy.plotting.style import HATCHES, Context, new_figure, series

STATUS = {"kept": "kept", "vanished": "vanished", "new": "new"}


def draw(tables: dict[str, pd.DataFrame], context: Context) -> Figure:
    """Bars: kept, then new ones, to the right; vanished ones to the left."""
    agreement, table = tables["audit_agreement"], tables["audit_reversals"]
    labels = arm_labels(agreement)  # an arm without any reversal has no row in the other
    count = table.assign(status=table["status"].replace("run", "kept")).groupby(["switch", "arm", "status"]).size()
    number = {status: np.array([count.get((*key, status), 0) for key in labels], dtype=float) for status in STATUS}
    figure = new_figure("Supported reversals of the ANWG ranking by audit arm", context, 1.3 + LINE_IN * len(labels))
    axes = figure.subplots()
    lines = np.arange(len(labels))
    left = {"kept": 0, "new": number["kept"], "vanished": -number["vanished"]}
    for place, (status, label) in enumerate(STATUS.items()):
        style = {"color": series((0, 2, 1)[place])["color"], "hatch": HATCHES[place]}
        axes.barh(
            lines, number[status], left=left[status], height=0.6, label=label, edgecolor="black", linewidth=0.4, **style
        )
    for line, (key, kept, gone, new) in enumerate(zip(labels, *number.values(), strict=True)):
        text = f"{kept:.0f}" if key == RUN else f"-{gone:.0f} +{new:.0f}"
        axes.text(kept + new + 0.4, line, text, va="center", fontsize=5)
    axes.axvline(0, color="black", linewidth=0.6)
    axes.use_sticky_edges = False
    axes.margins(x=0.14)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(lambda count, _: f"{abs(count):.0f}")
    arm_axis(axes, list(labels.values()))
    axes.set_xlabel("supported reversals (vanished to the left)")
    legend_below(figure, axes)
    return figure

"""Parts that several figures share: matrices with their values printed, axes of load regions, intervals."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from servestudy.errors import UserError
from servestudy.workload import REGIONS

LUMINANCE = (0.299, 0.587, 0.114)  # of red, green, blue
REGION_LABELS = [f"{name.replace('_', chr(10)).lower()}\n{multiple:g}" for name, multiple in REGIONS.items()]
LEGEND_STYLE = {"title_fontsize": 6.5, "frameon": False, "handlelength": 2.2, "columnspacing": 1.2}
LEGEND_LETTERS_PER_IN, HANDLE_LETTERS = 18, 6.5
WIDTH_ABOVE_IN = 3.0  # what a legend may take on top of a plot that has labels at its left
REGION_AXIS = "load region, multiple of the reference load"


def of_metric(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Rows of one metric; raises UserError if there is none."""
    rows = table[table["metric"] == metric]
    if rows.empty:
        raise UserError(f"no row of {metric} in a table of this figure: nothing to draw")
    return rows


def print_matrix(
    axes: Axes,
    colours: pd.DataFrame,
    texts: Sequence[Sequence[str]] | np.ndarray,
    limits: tuple[float, float],
    cmap: str = "cividis",
    **text_style,
) -> AxesImage:
    """A heat map of `colours` with `texts` [row, column] in its cells. Where the colour is NaN the cell is hatched."""
    axes.patch.set(facecolor="white", hatch="////", edgecolor="0.6")
    image = axes.imshow(colours, cmap=cmap, norm=mpl.colors.Normalize(*limits), aspect="auto")
    for row, column in np.ndindex(colours.shape):
        value = colours.iat[row, column]
        is_dark = not np.isnan(value) and np.dot(image.cmap(image.norm(value))[:3], LUMINANCE) < 0.5
        style = {"ha": "center", "va": "center", "color": "white" if is_dark else "black"} | text_style
        if np.isnan(value):
            style["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.text(column, row, texts[row][column], **style)
    axes.tick_params(length=0)
    return image


def region_axis(axes: Axes) -> None:
    """Six regions from 0 to 5 along x."""
    axes.set_xticks(range(len(REGIONS)), REGION_LABELS, fontsize=6)
    axes.set_xlim(-0.5, len(REGIONS) - 0.5)
    axes.set_xlabel(REGION_AXIS)


def side_by_side(number: int, of: int, width: float = 0.6) -> np.ndarray:
    """Where series `number` of `of` has its six points: beside those of the others, none on another."""
    return np.arange(len(REGIONS)) + width * ((number + 0.5) / of - 0.5)


def by_region(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the regions; a region without a row is NaN."""
    return rows.set_index("region").reindex(list(REGIONS))


def draw_points(axes: Axes, x: np.ndarray, values: pd.Series, label: str, style: dict) -> None:
    """Markers without a line. Where a value is undefined, the word stands upright at the bottom."""
    axes.plot(x, values, **style | {"linestyle": "none"}, markersize=3.2, label=label)
    upright = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "bottom"}
    for place in x[values.isna()]:
        axes.text(place, 0.02, "undefined", color=style["color"], fontsize=5, **upright)


def draw_intervals(
    axes: Axes, x: np.ndarray, values: pd.Series, low: pd.Series, high: pd.Series, label: str, style: dict
) -> None:
    """`draw_points` with their intervals, which need not contain them."""
    axes.vlines(x, low, high, color=style["color"], linewidth=0.9)
    for end in (low, high):
        axes.plot(x, end, color=style["color"], linestyle="none", marker="_", markersize=3.5, markeredgewidth=0.9)
    draw_points(axes, x, values, label, style)


def legend_below(figure: Figure, axes: Axes, note: str = "") -> None:
    """A legend of what is in `axes`, below all plots; `note` says what is neither line nor marker."""
    handles, labels = axes.get_legend_handles_labels()
    place = {"loc": "outside lower center", "ncols": _columns(labels, figure.get_figwidth())}
    figure.legend(handles, labels, **place, **LEGEND_STYLE, title=note or None)


def legend_above(axes: Axes, note: str = "") -> None:
    """The same on top of one plot."""
    _, labels = axes.get_legend_handles_labels()
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": _columns(labels, WIDTH_ABOVE_IN)}
    axes.legend(**place, **LEGEND_STYLE, title=note or None)


def _columns(labels: Sequence[str], width_in: float) -> int:
    """As many columns as fit, at least one."""
    for n in range(len(labels), 1, -1):
        letters = [max(map(len, column)) + HANDLE_LETTERS for column in np.array_split(labels, n)]
        if sum(letters) <= width_in * LEGEND_LETTERS_PER_IN:
            return n
    return 1

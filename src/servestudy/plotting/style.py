"""The common style of all figures, and saving them so that the same data give the same bytes."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from servestudy.files import atomic_path

COLUMN_WIDTH_IN = 3.4
PAGE_WIDTH_IN = 7.0
LETTERS_PER_IN = 16  # of the heading, at most
STYLE_FILE = Path(__file__).with_name("servestudy.mplstyle")

# Dark, middle and light first: they differ in grey too, and the markers and dashes do without colour.
COLOURS = ("#0b3c6f", "#d55e00", "#56b4e9", "#009e73", "#a0527d", "#222222", "#b8a000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)))
HATCHES = ("", "////", "....")


@dataclass(frozen=True)
class Context:
    """What every figure says about its data: the trace set's title and the engine model."""

    title: str
    model: str


def new_figure(what: str, context: Context, height_in: float, width_in: float = COLUMN_WIDTH_IN) -> Figure:
    """A figure in the project's style, whatever the user's own matplotlibrc says; needs no display.

    It is headed by `what` it shows, the trace set and the model.
    """
    mpl.rcParams.update(mpl.rc_params_from_file(STYLE_FILE))
    figure = Figure(figsize=(width_in, height_in))
    models = "models" if " and " in context.model else "model"
    lines = [what, f"{context.title}, {context.model} {models}"]
    figure.suptitle(
        "\n".join(textwrap.fill(line, int(width_in * LETTERS_PER_IN), break_on_hyphens=False) for line in lines),
        fontsize=7,
    )
    return figure


def series(number: int) -> dict:
    """Colour, marker and dashes of the series with this number, from 0; they repeat after seven."""
    places = (tuple_[number % len(tuple_)] for tuple_ in (COLOURS, MARKERS, DASHES))
    return dict(zip(("color", "marker", "linestyle"), places, strict=True))


def save(figure: Figure, paths: Iterable[Path | str]) -> None:
    """Write the figure in the format of each path's suffix (svg, pdf, png), without time stamps."""
    for path in map(Path, paths):
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.suffix[1:], {})
        with atomic_path(path) as part:
            figure.savefig(part, format=path.suffix[1:], metadata=dates)

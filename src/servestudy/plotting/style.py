"""The common style of all figures, and saving them so that the same data give the same bytes."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from servestudy.files import atomic_path

COLUMN_WIDTH_IN = 3.4
STYLE_FILE = Path(__file__).with_name("servestudy.mplstyle")


def new_figure(height_in: float, width_in: float = COLUMN_WIDTH_IN) -> Figure:
    """An empty figure in the project's style, whatever the user's own matplotlibrc says; needs no display."""
    mpl.rcParams.update(mpl.rc_params_from_file(STYLE_FILE))
    return Figure(figsize=(width_in, height_in))


def save(figure: Figure, paths: Iterable[Path | str]) -> None:
    """Write the figure in the format of each path's suffix (svg, pdf, png), without time stamps."""
    for path in map(Path, paths):
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.suffix[1:], {})
        with atomic_path(path) as part:
            figure.savefig(part, format=path.suffix[1:], metadata=dates)

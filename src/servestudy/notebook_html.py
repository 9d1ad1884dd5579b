"""The pieces of HTML that the notebooks show.

They bring their style along, so that JupyterLab shows them as the pages do.
"""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SMALL = "font-size:13px;color:#444;margin:.4em 0"
CELL = "text-align:left;vertical-align:top;padding:.2em .6em;border-bottom:1px solid #ddd;max-width:46em"
FRAME = "overflow:auto;max-height:30em;border:1px solid #ddd;margin:.3em 0"
CODE = "font-size:12px;line-height:1.4;padding:.6em;margin:0;white-space:pre"
TRACE_SET = ("trace_set", "measured", "model")
"""Columns that say the same in every row: named once, above the table."""
SCREEN_PX_PER_PT = 2.1  # figures are made for a column of paper; on a screen they may be larger
SHORT_TEXT, LONG_TEXT = 36, 400  # letters of a value that are shown


class Shown:
    """Something that a notebook shows; `image` has the bytes of a picture."""

    def __init__(self, text: str, image: bytes = b""):
        self._text, self.image = text, image

    def __repr__(self) -> str:
        return "shown as HTML"

    def _repr_html_(self) -> str:
        return self._text


def facts(*sentences: str) -> Shown:
    """Sentences as a list; empty ones are left out."""
    return Shown(list_of([sentence for sentence in sentences if sentence]))


def shown_rows(frame: pd.DataFrame, rows: int = 16) -> Shown:
    """The first rows of a data frame that a notebook made."""
    return Shown(f'<div style="{FRAME}">{_table(frame.head(rows), {})}</div>')


def drawn(figure: Figure, text: str = "a figure drawn in this notebook") -> Shown:
    """A matplotlib figure, as the workflow would save it."""
    from servestudy.plotting.style import save

    return saved_by(save, figure, text=text, suffix="svg")


def saved_by(save: Callable, *arguments: object, text: str, suffix: str = "png") -> Shown:
    """The picture that `save(*arguments, [file])` writes; nothing is left on the disk."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"picture.{suffix}"
        save(*arguments, [file])
        image = file.read_bytes()
    return Shown(picture(image, text, suffix), image)


def list_of(sentences: Iterable[str]) -> str:
    """A list of sentences."""
    return f"<ul>{''.join(f'<li>{html.escape(str(sentence))}</li>' for sentence in sentences)}</ul>"


def note(text: str, command: str = "") -> str:
    """A line in small letters, which may end with a command."""
    shown = f' <code style="white-space:nowrap">{html.escape(command)}</code>' if command else ""
    return f'<p style="{SMALL}">{html.escape(text)}{shown}</p>'


def picture(image: bytes, text: str, suffix: str = "svg") -> str:
    """SVG or PNG as an image of its own: ids of one SVG never meet those of another."""
    kind = {"svg": "svg+xml", "png": "png"}[suffix]
    data = base64.b64encode(image).decode("ascii")
    width = re.search(rb'<svg[^>]* width="([0-9.]+)pt"', image)
    look = f"width:{float(width[1]) * SCREEN_PX_PER_PT:.0f}px;" if width else ""
    return (
        f'<img style="{look}max-width:100%;background:white" alt="{html.escape(text)}"'
        f' src="data:image/{kind};base64,{data}">'
    )


def folded(summary: str, inside: str) -> str:
    """Something that is shown on a click."""
    title = f'<summary style="cursor:pointer">{html.escape(summary)}</summary>'
    return f'<details style="{SMALL}">{title}<div style="{FRAME}">{inside}</div></details>'


def folded_source(module: str) -> str:
    """The source text of a module of this package."""
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    return folded(f"the code: {module}", f'<pre style="{CODE}">{html.escape(text)}</pre>')


def folded_table(label: str, path: Path, columns: Sequence[str], rows: int) -> str:
    """The first rows of a Parquet or CSV file; no columns: all. The meaning of a column shows where the pointer is."""
    meanings: dict[str, str] = {}
    if path.suffix == ".csv":
        import pandas as pd

        head = pd.read_csv(path, keep_default_na=False, dtype=str)
        count = len(head)
    else:
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path)
        count = file.metadata.num_rows
        schema = file.schema_arrow
        meanings = {each.name: (each.metadata or {}).get(b"meaning", b"").decode() for each in schema}
        wanted = [name for name in columns if name in schema.names] or None
        batch = next(file.iter_batches(batch_size=max(rows, 1), columns=wanted), None)
        head = (batch.to_pandas() if batch is not None else schema.empty_table().to_pandas()).astype(object)
    shown = [name for name in columns if name in head] or list(head)
    return folded(f"the data: {label}, {_rows(count)}", _table(head[shown].head(rows), meanings))


def table_of(frame: pd.DataFrame, columns: Sequence[str], rows: int, file: str) -> str:
    """The first rows of a table, those columns apart that say the same in all of them."""
    said = [name for name in TRACE_SET if name in frame and name not in columns and frame[name].nunique() <= 1]
    shown = list(columns) or [name for name in frame if name not in said]
    above = [f"{name.replace('_', ' ')}: {frame[name].iloc[0]}" for name in said if len(frame)]
    if len(frame) > rows:
        above.append(f"{_rows(len(frame))}, the first {rows} are shown, all are in {file}")
    left_out = [name for name in frame if name not in shown and name not in said]
    if left_out:
        above.append(f"further columns in {file}: {', '.join(left_out)}")
    return f'{note(sentence("; ".join(above)))}<div style="{FRAME}">{_table(frame[shown].head(rows), {})}</div>'


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _table(frame: pd.DataFrame, meanings: dict[str, str]) -> str:
    head = "".join(
        f'<th style="{CELL}" title="{html.escape(meanings.get(name, ""))}">{html.escape(name)}</th>' for name in frame
    )
    rows = ("".join(map(_cell, row)) for row in frame.itertuples(index=False, name=None))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;font-size:12px;margin:0"><tr>{head}</tr>{body}</table>'


def _cell(value: object) -> str:
    text = shown(value)
    width = "white-space:nowrap" if len(text) <= SHORT_TEXT else "min-width:20em"
    return f'<td style="{CELL};{width}">{html.escape(text)}</td>'


def shown(value: object) -> str:
    """A value as the tables of the notebooks show it: four digits that count; NaN is `undefined`."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return value if len(value) <= LONG_TEXT else f"{value[:LONG_TEXT]} ..."
        if "." not in value and "e" not in value.lower():
            return value
    elif isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    else:
        number = value
    if math.isnan(number):
        return "undefined"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:.4g}"

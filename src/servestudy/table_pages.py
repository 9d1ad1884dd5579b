"""Tables as pages of HTML, which a browser shows as they are: the report of a run has them.

A page needs no other file and holds the CSV itself, to be saved.
"""

import base64
import csv
import html
import io
from collections.abc import Sequence
from pathlib import Path

from servestudy.errors import UserError
from servestudy.files import atomic_path

ROWS = 200
DIGITS = 6
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; color: #222; margin: 1rem; }
h1 { font-size: 1.2rem; margin: 0; } p { margin: .3rem 0; color: #444; }
table { border-collapse: collapse; font-size: 13px; margin-top: .8rem; }
th { position: sticky; top: 0; background: #eee; text-align: left; vertical-align: bottom; }
th, td { border: 1px solid #ccc; padding: .2rem .5rem; vertical-align: top; }
td { max-width: 22rem; overflow-wrap: anywhere; } td.number { text-align: right; white-space: nowrap; }
td.word { white-space: nowrap; }
td:first-child, th:first-child { position: sticky; left: 0; background: #f6f6f6; }
td:first-child { max-width: 14rem; white-space: normal; }
th:first-child { z-index: 1; } td > div { max-height: 9rem; overflow: auto; min-width: 12rem; }
"""
LONG, WORD = 60, 48
"""Letters from which a value gets a box of its own, and up to which it stays in one line."""


def write_pages(pages: Sequence[tuple[Path, str, Path]]) -> None:
    """Write pages: for each a CSV file, a line that says what it shows, the HTML file to write.

    Raises UserError if a CSV file is missing or has no column.
    """
    for table, text, out in pages:
        with atomic_path(out) as part:
            part.write_text(page(table, text), encoding="utf-8")


def page(table: Path, text: str) -> str:
    """Its first ROWS rows, with numbers of DIGITS digits; what a column says in every row stands above them."""
    try:
        content = table.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{table}: not found; make it with `snakemake {table}`") from None
    lines = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    if not lines:
        raise UserError(f"{table}: no table; delete it and run again")
    head, *rows = lines
    same = [place for place in range(len(head)) if len(rows) > 1 and len({row[place] for row in rows}) == 1]
    shown = [place for place in range(len(head)) if place not in same]
    facts = "; ".join(f"{_words(head[place])}: {rows[0][place] or 'none'}" for place in same)
    of_all = f"first {ROWS} of {len(rows)} rows" if len(rows) > ROWS else f"{len(rows)} rows"
    data = base64.b64encode(content).decode("ascii")
    return "\n".join(
        [
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(table.stem)}</title>',
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{html.escape(text[:1].upper() + text[1:])}</h1>",
            *([f"<p>{html.escape(facts)}</p>"] if facts else []),
            f"<p>{of_all}, numbers to {DIGITS} digits. All of it:",
            f'<a download="{table.name}" href="data:text/csv;base64,{data}">{html.escape(table.as_posix())}</a></p>',
            "<table><thead><tr>",
            *(f"<th>{html.escape(_words(head[place]))}</th>" for place in shown),
            "</tr></thead><tbody>",
            *("<tr>" + "".join(_cell(row[place]) for place in shown) + "</tr>" for row in rows[:ROWS]),
            "</tbody></table></body></html>\n",
        ]
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        text = html.escape(value)
        if len(value) > LONG:
            return f"<td><div>{text}</div></td>"
        return f'<td class="word">{text}</td>' if len(value) <= WORD else f"<td>{text}</td>"
    short = value if len(value.lstrip("-")) <= DIGITS + 1 else f"{number:.{DIGITS}g}"
    return f'<td class="number">{short}</td>'

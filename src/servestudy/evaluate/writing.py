"""The report card on a terminal and as one HTML file that needs no other."""

import html
import math
from collections.abc import Iterable
from pathlib import Path

from servestudy.evaluate.report import Cell, Section, Table
from servestudy.files import atomic_path

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; border-bottom: 1px solid #bbb; }
table { border-collapse: collapse; margin: .4rem 0; font-size: 13px; }
th, td { border: 1px solid #ccc; padding: .2rem .5rem; text-align: left; white-space: nowrap; }
th { background: #eee; } .note { color: #555; font-size: 13px; margin: 0 0 1rem; }
.problem { border-left: 4px solid #d55e00; padding-left: .6rem; }
.fine { border-left: 4px solid #009e73; padding-left: .6rem; }
.wide { overflow-x: auto; } summary { cursor: pointer; margin: .3rem 0; }
"""
NO_PROBLEM = "nothing wrong was found in it"


def terminal_text(title: str, origin: str, sections: Iterable[Section]) -> str:
    """The card in plain letters, tables of the primary metric only."""
    lines = [title, origin]
    for section in sections:
        lines += ["", section.title.upper(), *(f"  {fact}" for fact in section.facts)]
        lines += [f"  ! {problem}" for problem in section.problems] or [f"  {NO_PROBLEM}"]
        for table in section.tables:
            if not table.detail:
                lines += ["", *_plain(table)]
    return "\n".join(lines)


def _plain(table: Table) -> list[str]:
    lines = [f"  {table.title}: {table.note}"]
    if table.rows:
        texts = [table.head, *([cell.text for cell in row] for row in table.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for row in texts:
            lines.append(
                "    " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            )
    return lines


def write_html(title: str, origin: str, sections: Iterable[Section], definitions: list[str], out: Path | str) -> None:
    """The card as one file, details folded."""
    parts = [f"<h1>{_safe(title)}</h1><p class=note>{_safe(origin)}</p>"]
    for section in sections:
        parts.append(f"<h2>{_safe(section.title)}</h2>")
        parts.append(_list(section.facts))
        parts += [f"<p class=problem>{_safe(problem)}</p>" for problem in section.problems]
        if not section.problems:
            parts.append(f"<p class=fine>{NO_PROBLEM}</p>")
        parts += [_table(table) for table in section.tables if not table.detail]
        details = [_table(table) for table in section.tables if table.detail]
        if details:
            parts.append(f"<details><summary>All other metrics</summary>{''.join(details)}</details>")
    parts.append(f"<h2>Metrics</h2>{_list(definitions)}")
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{_safe(title)}</title>'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    with atomic_path(out) as part:
        part.write_text(page, encoding="utf-8")


def _table(table: Table) -> str:
    title = f"<h3>{_safe(table.title)}</h3><p class=note>{_safe(table.note)}</p>"
    if not table.rows:
        return title
    head = "".join(f"<th>{_safe(name)}</th>" for name in table.head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return f"{title}<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _cell(cell: Cell) -> str:
    if math.isnan(cell.shade):
        return f"<td>{_safe(cell.text)}</td>"
    # From orange (worst) over white to blue (best): told apart also by those who do not see red and green.
    hue, strength = (28, 0.5 - cell.shade) if cell.shade < 0.5 else (210, cell.shade - 0.5)
    return f'<td style="background: hsl({hue} 85% {100 - 60 * strength:.0f}%)">{_safe(cell.text)}</td>'


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{_safe(line)}</li>' for line in lines)}</ul>"


def _safe(text: str) -> str:
    return html.escape(str(text))

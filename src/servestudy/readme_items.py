"""The part of the README that lists every figure and table of the default run: command, time, notebook."""

import csv
from collections.abc import Mapping
from pathlib import Path

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.items import FIGURE, ITEMS, TABLE
from servestudy.traceability import Shown, study_of

BEGIN = "<!-- Written by `servestudy readme`, like all up to the end mark: do not edit. -->"
END = "<!-- end of what `servestudy readme` writes -->"
TITLES = {
    "portability": "Portability of rankings",
    "audit": "Audit of the published model, and both engine models",
    "tiers": "Priority tiers",
    "spotcheck": "Spot-check on a real engine",
}
TIME_CLASSES = ((20, "seconds"), (60, "under a minute"), (float("inf"), "minutes"))
"""Rough, so that the list stays as it is from run to run."""


def write_readme(traceability: Path, notebooks: Mapping[Shown, list[str]], readme: Path) -> None:
    """Put the list between its marks in the README; times are those of a default run's `traceability` table.

    Raises UserError if that table is missing or the README has not both marks.
    """
    try:
        with traceability.open(encoding="utf-8", newline="") as table:
            times = {(row["kind"], row["item"]): row["time_s"] for row in csv.DictReader(table)}
    except (OSError, KeyError) as error:
        raise UserError(f"{traceability}: no such table ({error}); make it with `snakemake traceability`") from None
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(f"{readme}: the list goes between two lines, which are missing:\n{BEGIN}\n{END}")
    with atomic_path(readme) as part:
        part.write_text(f"{before}{block(notebooks, times)}{after}", encoding="utf-8")


def block(notebooks: Mapping[Shown, list[str]], times: Mapping[Shown, str]) -> str:
    """The list with its marks: a folded table a study. `times` are in seconds, by kind and item."""
    lines = [BEGIN]
    for study, title in TITLES.items():
        items = [item for item in ITEMS.values() if study_of(item) == study]
        figures, tables = (sum(item.kind == kind for item in items) for kind in (FIGURE, TABLE))
        lines += [
            f"<details><summary>{title}: {figures} figures, {tables} tables</summary>\n",
            "| what it shows | command | time | notebook |",
            "|---|---|---|---|",
        ]
        for item in items:
            shown = (item.kind, item.name)
            links = ", ".join(f"[{Path(path).stem[:2]}]({path})" for path in notebooks.get(shown, []))
            command = f"`snakemake {item.kind}s/{item.file} --cores 2`"
            lines.append(f"| {item.text} | {command} | {time_class(times.get(shown, ''))} | {links} |")
        lines.append("\n</details>\n")
    return "\n".join([*lines, END])


def time_class(seconds: str) -> str:
    """In words; `not measured` for what is no number."""
    try:
        value = float(seconds)
    except ValueError:
        return "not measured"
    return next(name for below, name in TIME_CLASSES if value < below)

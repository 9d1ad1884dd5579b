"""Where each figure and table of a run comes from: rule, command, claims, notebook, paper, inputs, time."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servestudy.errors import UserError
from servestudy.files import atomic_path, sha256_of
from servestudy.items import FIGURE, ITEMS, TABLE, Item
from servestudy.spotcheck.registry import PROVENANCE

if TYPE_CHECKING:
    from servestudy.config import Layer

COLUMNS = ("kind", "item", "file", "rule", "command", "claims", "notebook", "paper", "inputs", "time_s")
CLAIMS = ("claims.csv", "tiers/claims.csv")
"""The tables of claims of a run, below results/<run>."""
FILE_TYPES = {FIGURE: ("svg", "pdf"), TABLE: ("csv",)}
RULES = {
    (FIGURE, "portability"): "draw_figure",
    (FIGURE, "audit"): "draw_audit_figure",
    (FIGURE, "tiers"): "draw_tier_figure",
    (FIGURE, "spotcheck"): "draw_spotcheck_figure",
    (TABLE, "portability"): "write_table",
    (TABLE, "audit"): "write_audit_table",
    (TABLE, "tiers"): "write_tier_table",
    (TABLE, "spotcheck"): "write_spotcheck_tables",
}
FACTS_ONLY = ("portability/schedulers", "portability/metrics")
"""Tables of registered facts: they take names and counts from an analysis, and show no claim that rests on it."""
SHOWN_IN_NOTEBOOK = r"""\brun\.(figure|table)\(\s*["']([^"']+)["']"""
SHOWN_IN_PAPER = r"""\bshown-(figure|table)\(\s*"([^"]+)\""""

Shown = tuple[str, str]
"""Kind and name of an item."""


@dataclass(frozen=True)
class TracedRun:
    """A run: its folders, its engine models (the first is the one that figures show), and what it replayed.

    `options` are those that Snakemake needs for it, each with a space before it.
    """

    results: Path
    figures: Path
    tables: Path
    models: Sequence[str]
    measurements: Path
    options: str = ""

    def items(self) -> Iterator[Item]:
        """The figures and tables that a run of these engine models has."""
        return (item for item in ITEMS.values() if set(item.models) <= set(self.models))

    def files(self, item: Item) -> list[Path]:
        """A figure has two, of one job."""
        folder = self.figures if item.kind == FIGURE else self.tables
        return [(folder / item.file).with_suffix(f".{extension}") for extension in FILE_TYPES[item.kind]]

    def inputs(self, item: Item) -> list[Path]:
        """The data that the item is made of."""
        found = [self.results / path for path in item.tables(self.models[0]).values()]
        return [*found, self.measurements / PROVENANCE] if study_of(item) == "spotcheck" else found

    def command(self, file: Path) -> str:
        """What makes a file, and only what it needs."""
        return f"snakemake {file.as_posix()} --cores 2{self.options}"


def write_traceability(run: TracedRun, notebooks: Sequence[Path], paper: Sequence[Path], out: Path | str) -> None:
    """Write a CSV with a row of COLUMNS for each file of each item; `notebooks` and `paper` are source texts.

    Raises UserError if a file is missing or is no notebook.
    """
    claims = read_evidence(run.results / name for name in CLAIMS)
    in_notebooks, in_paper = shown_in_notebooks(notebooks), shown_in_paper(paper)
    rows = []
    for item in run.items():
        shown, inputs = (item.kind, item.name), run.inputs(item)
        of_all_files = {
            "claims": " ".join(claims_of(item, inputs, claims)),
            "notebook": " ".join(in_notebooks.get(shown, [])),
            "paper": "yes" if shown in in_paper else "no",
            "inputs": " ".join(f"{path.as_posix()}={_hash(path)}" for path in inputs),
            "time_s": time_of(item, run.results / "benchmarks"),
        }
        for file in run.files(item):
            if not file.is_file():
                raise UserError(f"{file}: not found; make it with `{run.command(file)}`")
            first = {"kind": item.kind, "item": item.name, "file": file.as_posix(), "rule": rule_of(item)}
            rows.append(first | {"command": run.command(file)} | of_all_files)
    with atomic_path(out) as part, part.open("w", encoding="utf-8", newline="") as table:
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def study_of(item: Item) -> str:
    """`portability`, `audit`, `tiers` or `spotcheck`."""
    return item.name.partition("/")[0]


def rule_of(item: Item) -> str:
    """The rule of the workflow that makes it."""
    return RULES[item.kind, study_of(item)]


def read_evidence(claims: Iterable[Path]) -> dict[Path, dict[str, list[str]]]:
    """Table of claims -> claim -> files that its verdict rests on. Raises UserError if it is no such table."""
    found = {}
    for path in claims:
        try:
            with path.open(encoding="utf-8", newline="") as table:
                found[path] = {row["claim"]: row["evidence"].split(", ") for row in csv.DictReader(table)}
        except (OSError, KeyError) as error:
            raise UserError(f"{path}: no table of claims ({error}); make it with `snakemake {path}`") from None
    return found


def claims_of(item: Item, inputs: Sequence[Path], evidence: Mapping[Path, Mapping[str, list[str]]]) -> list[str]:
    """Claims that rest on a table that the item is made of. What shows a table of claims alone shows all of them."""
    if set(inputs) <= evidence.keys():
        return [claim for path in inputs for claim in evidence[path]]
    if item.name in FACTS_ONLY:
        return []
    read = {path.as_posix() for path in inputs}
    return [claim for claims in evidence.values() for claim, files in claims.items() if read.intersection(files)]


def shown_in_notebooks(notebooks: Iterable[Path]) -> dict[Shown, list[str]]:
    """Item -> notebooks whose code has `run.figure("<item>")` or `run.table("<item>")`.

    Raises UserError for a file that is no notebook.
    """
    found: dict[Shown, list[str]] = {}
    for path in sorted(notebooks):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{path}: not a notebook ({error})") from None
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        for shown in dict.fromkeys(re.findall(SHOWN_IN_NOTEBOOK, code)):
            found.setdefault(shown, []).append(path.as_posix())
    return found


def shown_in_paper(sources: Iterable[Path]) -> set[Shown]:
    """Items that Typst sources show by `shown-figure("<item>", ...)` or `shown-table("<item>", ...)`."""
    return {shown for path in sources for shown in re.findall(SHOWN_IN_PAPER, path.read_text(encoding="utf-8"))}


def time_of(item: Item, benchmarks: Path) -> str:
    """Seconds that the job took, as Snakemake measured; `undefined` where it left no record."""
    rule, name = rule_of(item), item.name.partition("/")[2]
    if rule == "write_spotcheck_tables":  # one job for all of them
        path = benchmarks / f"{rule}.tsv"
    else:  # `tiers` is a wildcard of its rules
        path = benchmarks / rule / f"{item.name if study_of(item) == 'tiers' else name}.tsv"
    if not path.is_file():
        return "undefined"
    with path.open(encoding="utf-8", newline="") as table:
        record = next(csv.DictReader(table, delimiter="\t"))
    return f"{float(record['s']):.1f}"


def options_of(layers: Sequence[Layer]) -> str:
    """The options of Snakemake that give a run these layers of configuration, each with a space before it."""
    from servestudy.config import BASE, COMMAND_LINE

    files = [layer.place for layer in layers if layer.place not in (BASE, COMMAND_LINE)]
    pairs = [
        shlex.quote(f"{key}={value if isinstance(value, str) else json.dumps(value)}")
        for layer in layers
        if layer.place == COMMAND_LINE
        for key, value in layer.values.items()
    ]
    replaced = [] if BASE in [layer.place for layer in layers] else ["--replace-workflow-config"]
    words = [*(["--configfile", *files] if files else []), *(["--config", *pairs] if pairs else []), *replaced]
    return "".join(f" {word}" for word in words)


def _hash(path: Path) -> str:
    try:
        return sha256_of(path)
    except FileNotFoundError:
        raise UserError(f"{path}: not found; make it with `snakemake {path}`") from None

"""The registry of trace sources: `config/sources.tsv`, one row a source."""

import csv
import io
from dataclasses import dataclass, fields
from pathlib import Path

from servestudy.errors import UserError
from servestudy.schemas import load_schema, schema_problems, show, unknown
from servestudy.traces.column_map import EXAMPLE, parse_columns

PROJECT = Path(__file__).parents[3]
SOURCES = "config/sources.tsv"


@dataclass(frozen=True)
class Source:
    """One row of the registry; docs/DATA.md says what each column means."""

    id: str
    title: str
    dataset: str
    format: str
    columns: str
    version: str
    file: str
    url: str | None
    sha256: str | None
    bytes: int | None
    rows: int | None
    skip_rows: int
    sampling_seed: int
    synthetic: bool
    licence: str
    redistribution: str
    citation: str

    def raw_path(self, raw_folder: Path | str) -> Path:
        """Where the raw file lies: <raw folder>/<dataset>/<version>/<file>."""
        return Path(raw_folder) / self.dataset / self.version / self.file

    def mirror_path(self, mirror: Path | str) -> Path:
        """Where a mirror folder holds the file: <mirror>/<dataset>/<file>."""
        return Path(mirror) / self.dataset / self.file


COLUMNS = [field.name for field in fields(Source)]
INTEGERS = ("bytes", "rows", "skip_rows", "sampling_seed")
OPTIONAL = ("url", "sha256", "bytes", "rows")


def load_sources(path: Path | str) -> dict[str, Source]:
    """Read and check the registry; returns id -> Source in file order.

    Raises UserError that lists every problem with file, line, column, value and what is allowed.
    """
    path = Path(path)
    schema = load_schema("sources", PROJECT)
    problems = []
    line_of: dict[str, int] = {}
    sources: dict[str, Source] = {}
    for line, cells in _read_lines(path):
        place = f"{path}, line {line}"
        if len(cells) != len(COLUMNS):
            problems.append(f"{place}: found {len(cells)} tab-separated fields; allowed: {len(COLUMNS)}")
            continue
        row = dict(zip(COLUMNS, cells, strict=True))
        found = schema_problems(place, row, schema) or _column_problems(place, row)
        if line_of.setdefault(row["id"], line) != line:
            found.append(f"{place}: id: found {show(row['id'])} as in line {line_of[row['id']]}; allowed: once")
        problems += found
        if not found:
            sources[row["id"]] = _source(row)
    if problems:
        raise UserError("\n".join(problems))
    if not sources:
        raise UserError(f"{path}: no source in it; allowed: a row or more, with the columns {' '.join(COLUMNS)}")
    return sources


def _read_lines(path: Path) -> list[tuple[int, list[str]]]:
    """The data rows with their line numbers, after a check of the header."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: not found; it holds the registry of traces") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    lines = [(reader.line_num, cells) for cells in reader if cells]
    header = lines[0][1] if lines else []
    if header != COLUMNS:
        notes = [f"missing column {name}" for name in COLUMNS if name not in header]
        notes += [unknown("column", name, COLUMNS) for name in header if name not in COLUMNS]
        raise UserError(
            f"{path}, line 1: {'; '.join(notes) or 'wrong order of columns'}; "
            f"allowed, tab-separated: {' '.join(COLUMNS)}"
        )
    return lines[1:]


def _column_problems(place: str, row: dict[str, str]) -> list[str]:
    try:
        if row["columns"]:
            parse_columns(row["columns"])
    except ValueError as error:
        return [f"{place}: columns: found {show(row['columns'])}: {error}; allowed: as {EXAMPLE}"]
    return []


def _source(row: dict[str, str]) -> Source:
    values: dict = {name: row[name] or None if name in OPTIONAL else row[name] for name in COLUMNS}
    for name in INTEGERS:
        values[name] = int(values[name]) if values[name] is not None else None
    values["synthetic"] = row["synthetic"] == "yes"
    return Source(**values)

"""The tables of a release: the parts of a run put together, sorted, described column by column."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.release.contents import ADDED, Place
from servestudy.release.window_index import read_window_index
from servestudy.tables import column, write_table

UNIT_OF_ENDING = {
    "_s": "s",
    "_rps": "1/s",
    "_tps": "tokens/s",
    "_tokens": "tokens",
    "usd": "USD",
    "_share": "share",
    "_fraction": "share",
}
NAME_MISLEADS = re.compile(r"log odds|seconds a |^the former x ")
"""Meanings of columns whose name ends with the unit of something else."""

DICTIONARY_COLUMNS = ("table", "column", "type", "unit", "meaning", "may_be_null")


@dataclass(frozen=True)
class Described:
    """A table as it lies in the release."""

    name: str
    text: str
    schema: pa.Schema
    rows: int

    @property
    def path(self) -> str:
        return f"data/{self.name}.parquet"


def put_together(parts: Iterable[tuple[Path, Place]]) -> pa.Table:
    """All parts of a table, sorted by its leading columns, up to the first measured one; ties stay in order of parts.

    Raises UserError if two parts have other columns or a file cannot be read.
    """
    tables = []
    for path, place in parts:
        table = _with_words(_read(path), place.words)
        if tables and not table.schema.equals(tables[0].schema):
            raise UserError(f"{path}: its columns differ from those of the other parts of {place.table}; run again")
        tables.append(table)
    whole = pa.concat_tables(tables)
    keys = []
    for field in whole.schema:
        if not (pa.types.is_string(field.type) or pa.types.is_integer(field.type)):
            break
        keys.append((field.name, "ascending"))
    return whole.take(pc.sort_indices(whole, keys)) if keys else whole


def sources_in(table: pa.Table) -> set[str]:
    """Ids of the sources that a table names, if it has such a column."""
    return set(table["source"].unique().to_pylist()) if "source" in table.column_names else set()


def only_of(table: pa.Table, sources: Iterable[str]) -> pa.Table:
    """The rows of these sources."""
    return table.filter(pc.is_in(table["source"], pa.array(sorted(sources), pa.string())))


def write_released(table: pa.Table, place: Place, folder: Path) -> Described:
    """Write data/<name>.parquet. Raises ValueError if a column does not say what it means."""
    silent = [field.name for field in table.schema if not _meaning(field)]
    if silent:
        raise ValueError(f"table {place.table}: no meaning of the columns {silent}")
    described = Described(place.table, place.text, table.schema, table.num_rows)
    write_table(table, table.schema, folder / described.path)
    return described


def unit_of(field: pa.Field) -> str:
    """Unit of a column: what its meaning has in brackets or after a comma, else what its name ends with; often none."""
    if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_list(field.type)):
        return ""
    meaning = _meaning(field)
    stated = re.search(r"\[(s|1/s|tokens/s|tokens|share)\]", meaning) or re.search(
        r", (s|1/s|tokens/s|tokens)(?=$|;|:)", meaning
    )
    if stated:
        return stated.group(1)
    if NAME_MISLEADS.search(meaning):
        return ""
    if re.match(r"(largest |smallest |mean )?share of", meaning):
        return "share"
    if re.search(r"tokens_(mean|p\d+)$", field.name):
        return "tokens"
    return next((unit for ending, unit in UNIT_OF_ENDING.items() if field.name.endswith(ending)), "")


def write_dictionary(tables: Iterable[Described], path: Path) -> None:
    """One row a column of every table, as CSV."""
    with atomic_path(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(DICTIONARY_COLUMNS)
        for table in tables:
            for field in table.schema:
                may_be_null = "yes" if field.nullable else "no"
                writer.writerow([table.name, field.name, field.type, unit_of(field), _meaning(field), may_be_null])


def _read(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        return read_window_index(path)
    try:
        return pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from None


def _with_words(table: pa.Table, words: dict[str, str]) -> pa.Table:
    """The table with a column in front for each word of its path that it does not hold itself."""
    for name, word in reversed(words.items()):
        if name not in table.column_names:
            value = int(word) if word.isdecimal() else word
            dtype = pa.int32() if word.isdecimal() else pa.string()
            table = table.add_column(0, column(name, dtype, ADDED[name]), pa.array([value] * len(table), dtype))
    return table


def _meaning(field: pa.Field) -> str:
    return (field.metadata or {}).get(b"meaning", b"").decode()

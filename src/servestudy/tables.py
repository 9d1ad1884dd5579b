"""The stored tables: one declared Arrow schema each, one way to write and to read them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from servestudy.errors import UserError
from servestudy.files import atomic_path

if TYPE_CHECKING:
    import pandas as pd


def column(name: str, dtype: pa.DataType, meaning: str, nullable: bool = False) -> pa.Field:
    """A column with its meaning (and unit) in the field's metadata."""
    return pa.field(name, dtype, nullable=nullable, metadata={"meaning": meaning})


def write_table(table: pa.Table, schema: pa.Schema, path: Path | str) -> None:
    """Write Parquet after checking the table against its schema.

    Same table, same bytes: no time stamps, fixed row groups, fixed compression.
    Raises ValueError if a column is missing, extra, of another type, or null where it must not be.
    """
    if table.column_names != schema.names:
        raise ValueError(f"{path}: columns {table.column_names} instead of {schema.names}")
    table = table.cast(schema)
    for field in schema:
        if not field.nullable and table[field.name].null_count:
            raise ValueError(f"{path}: column {field.name} holds nulls")
    with atomic_path(path) as part:
        pq.write_table(table, part, compression="zstd", row_group_size=1 << 20)


def write_frame(frame: pd.DataFrame, schema: pa.Schema, path: Path | str) -> None:
    """`write_table` for a data frame. NaN stays NaN: undefined is a value here, null is a mistake."""
    columns = {field.name: pa.array(frame[field.name].to_numpy(), field.type, from_pandas=False) for field in schema}
    write_table(pa.table(columns), schema, path)


def read_table(path: Path | str, schema: pa.Schema) -> pa.Table:
    """Read one Parquet file that `write_table` wrote with this schema.

    Raises UserError if the file is missing, unreadable or has other columns.
    """
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path}: not found; check the path, or make it with snakemake (README.md)") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file ({error}); if a run made it, delete that file") from None
    if not table.schema.equals(schema):
        raise UserError(
            f"{path}: its columns are {table.column_names}, expected {schema.names} (or other types); "
            "it was written by another version: delete it and run again"
        )
    return table

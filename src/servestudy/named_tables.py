"""Reading the tables that a figure or a table of the study is made of: given as NAME=FILE, with the columns it uses."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from servestudy.errors import UserError


def read_named_tables(
    what: str, files: Mapping[str, Path], reads: Mapping[str, tuple[str, ...]]
) -> dict[str, pd.DataFrame]:
    """The named columns of each Parquet or CSV file, by the name of the table; `what` is made of them.

    Raises UserError if a table of `reads` is not among `files`, or another is; if a file is missing or unreadable, or
    lacks a column.
    """
    if files.keys() != reads.keys():
        needed = " ".join(f"{name}=FILE" for name in reads)
        raise UserError(f"{what}: got the tables {', '.join(files)}; it needs --tables {needed}")
    return {name: _read(Path(files[name]), columns) for name, columns in reads.items()}


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    try:
        if path.suffix == ".csv":
            frame = pd.read_csv(path, keep_default_na=False)
            found = list(frame)
        else:
            found = pq.read_schema(path).names
            frame = pq.read_table(path, columns=[name for name in columns if name in found]).to_pandas()
    except FileNotFoundError:
        raise UserError(f"{path}: not found; run `snakemake {path}` first") from None
    except (pa.ArrowInvalid, pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a readable table ({error}); delete it and run again") from None
    missing = [name for name in columns if name not in found]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}; is it the table that is needed?")
    return frame[list(columns)]

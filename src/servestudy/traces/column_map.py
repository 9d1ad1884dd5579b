"""Which columns of a CSV, or keys of JSON lines, hold time and tokens: the cell `columns` of config/sources.tsv."""

from typing import NamedTuple

MAPPED_FORMATS = ("csv", "jsonl")
SECONDS_PER_UNIT = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of a numeric time, and what it is divided by."""
STAMP = "stamp"
"""Unit of a time that is a date and time, read as UTC where it names no zone."""
EXAMPLE = "time=created_at; unit=ms; prompt=input tokens; output=output tokens"


class ColumnMap(NamedTuple):
    """Names of the columns, and the unit of the time: a key of SECONDS_PER_UNIT, or STAMP."""

    time: str
    prompt: str
    output: str
    unit: str = "s"


def parse_columns(text: str) -> ColumnMap:
    """Read `time=...; prompt=...; output=...; unit=...` in any order; raises ValueError that says what is wrong.

    A name may hold anything but ; and = and is taken without the blanks around it. The unit may be left out: seconds.
    """
    found: dict[str, str] = {}
    for part in text.split(";"):
        key, equals, name = (piece.strip() for piece in part.partition("="))
        if not (equals and name) or "=" in name:
            raise ValueError(f"{part.strip()!r} is not NAME=COLUMN")
        if key not in ColumnMap._fields:
            raise ValueError(f"{key!r} is none of {', '.join(ColumnMap._fields)}")
        if key in found:
            raise ValueError(f"{key} is given twice")
        found[key] = name
    missing = [key for key in ColumnMap._fields if key not in found and key not in ColumnMap._field_defaults]
    if missing:
        raise ValueError(f"{' and '.join(missing)} missing")
    columns = ColumnMap(**found)
    if columns.unit not in (*SECONDS_PER_UNIT, STAMP):
        raise ValueError(f"unit is {columns.unit!r}, must be {', '.join(SECONDS_PER_UNIT)} or {STAMP}")
    if len(set(columns[:3])) < 3:
        raise ValueError("two of time, prompt and output have the same column")
    return columns

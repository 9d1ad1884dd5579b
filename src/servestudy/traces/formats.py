"""The two kinds of raw trace files, and the rule for one row."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv

from servestudy.errors import UserError

MAX_TOKENS = 2**31 - 1
LONGEST_HEADER = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
NUMBERS = (int, float)
WHOLE_NUMBER = re.compile(r"-?[0-9]+")

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]
"""time_s float64, prompt tokens int32, output tokens int32."""
Row = tuple[float, int, int]


class Reader(Protocol):
    """Turns lines of one file into rows."""

    def columns(self, block: bytes) -> Columns | None:
        """All rows of a block of whole lines at once; None if that is not possible."""

    def row(self, line: bytes) -> Row:
        """One line; raises ValueError with the reason if it is malformed."""


@dataclass(frozen=True)
class CsvFormat:
    """Comma-separated text with a header and no quotes; further columns are ignored.

    `times` turns the time column, read as `time_type`, into float64 seconds, or raises ArrowInvalid;
    `parse_time` does so for one text, or raises ValueError. Both must agree.
    """

    time: str
    prompt: str
    output: str
    time_type: pa.DataType
    times: Callable[[pa.ChunkedArray], np.ndarray]
    parse_time: Callable[[str], float]

    def open(self, file: BinaryIO, path: Path) -> tuple[Reader, bytes]:
        """The reader for a file and the header line that it consumed."""
        header = file.readline(LONGEST_HEADER)
        names = header.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "backslashreplace").strip().split(",")
        missing = [name for name in (self.time, self.prompt, self.output) if name not in names]
        if missing:
            raise UserError(
                f"{path}, line 1: no column {', '.join(missing)} in the header {shown(','.join(names))!r}; "
                "is it another format, or not the raw file?"
            )
        return CsvReader(self, names), header


class CsvReader:
    def __init__(self, layout: CsvFormat, names: list[str]):
        self.layout = layout
        self.width = len(names)
        self.places = [names.index(name) for name in (layout.time, layout.prompt, layout.output)]
        wanted = [str(place) for place in self.places]
        # One thread is as fast for blocks of this size, and a job keeps to the core it asked for.
        self.read_options = pa.csv.ReadOptions(
            column_names=[str(place) for place in range(self.width)], use_threads=False
        )
        self.parse_options = pa.csv.ParseOptions(quote_char=False)
        self.convert_options = pa.csv.ConvertOptions(
            column_types=dict(zip(wanted, (layout.time_type, pa.int32(), pa.int32()), strict=True)),
            include_columns=wanted,
            null_values=[],
            strings_can_be_null=False,
        )

    def columns(self, block: bytes) -> Columns | None:
        try:
            table = pa.csv.read_csv(pa.BufferReader(block), self.read_options, self.parse_options, self.convert_options)
            time_s = self.layout.times(table.column(0))
        except pa.ArrowInvalid:
            return None
        if b"0x" in block or b"0X" in block:  # the CSV reader takes hexadecimal whole numbers
            return None
        return time_s, table.column(1).to_numpy(), table.column(2).to_numpy()

    def row(self, line: bytes) -> Row:
        cells = line.decode("utf-8", "backslashreplace").split(",")
        if len(cells) != self.width:
            raise ValueError(f"{len(cells)} fields instead of {self.width}")
        time, prompt, output = (cells[place] for place in self.places)
        return (
            self.layout.parse_time(time),
            _whole(prompt, self.layout.prompt),
            _whole(output, self.layout.output),
        )


@dataclass(frozen=True)
class JsonlFormat:
    """One JSON object a line; further keys are ignored.

    `seconds` turns the time into seconds, or raises ValueError; `time_is_text`: the time is a text, not a number.
    """

    time: str
    prompt: str
    output: str
    seconds: Callable[[float], float] | Callable[[str], float]
    time_is_text: bool = False

    def open(self, file: BinaryIO, path: Path) -> tuple[Reader, bytes]:
        """The reader for a file; there is no header, only a byte order mark may be consumed."""
        mark = file.read(len(BYTE_ORDER_MARK)) if file.peek(3).startswith(BYTE_ORDER_MARK) else b""
        return JsonlReader(self), mark


class JsonlReader:
    def __init__(self, layout: JsonlFormat):
        self.layout = layout

    def columns(self, block: bytes) -> None:
        return None

    def row(self, line: bytes) -> Row:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError("not a JSON object") from None
        if not isinstance(record, dict):
            raise ValueError("not a JSON object")
        values = []
        for key, kinds, what in (
            (self.layout.time, str, "a text") if self.layout.time_is_text else (self.layout.time, NUMBERS, "a number"),
            (self.layout.prompt, int, "a whole number"),
            (self.layout.output, int, "a whole number"),
        ):
            if key not in record:
                raise ValueError(f"no {key}")
            value = record[key]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"{key} is not {what}")
            values.append(value)
        try:
            return self.layout.seconds(values[0]), values[1], values[2]
        except OverflowError:
            raise ValueError(f"{self.layout.time} is too large") from None


def all_checked(time_s: np.ndarray, prompt: np.ndarray, output: np.ndarray) -> bool:
    """Whether `checked` would pass every row; the token columns are int32."""
    return bool(np.isfinite(time_s).all() and prompt.min() >= 0 and output.min() >= 0)


def checked(time_s: float, prompt: int, output: int) -> Row:
    """The row itself; raises ValueError with the reason if a value cannot be one of a request."""
    if not math.isfinite(time_s):
        raise ValueError(f"the time is {time_s}")
    for what, tokens in (("prompt", prompt), ("output", output)):
        if tokens < 0:
            raise ValueError(f"negative {what} tokens")
        if tokens > MAX_TOKENS:
            raise ValueError(f"more than {MAX_TOKENS} {what} tokens")
    return time_s, prompt, output


def _whole(text: str, name: str) -> int:
    text = text.strip(" \t")
    if not WHOLE_NUMBER.fullmatch(text):
        raise ValueError(f"{name} is not a whole number")
    return int(text)


def shown(text: str) -> str:
    """A text as it is quoted in messages: long ones are cut."""
    return text if len(text) <= 80 else text[:77] + "..."

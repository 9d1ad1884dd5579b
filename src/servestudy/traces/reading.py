"""One streaming pass over a raw trace file of any format, with bounded memory.

A file is read in blocks of whole lines. A block is parsed as columns; only where that fails, or where a value
breaks a rule, are the block's lines looked at one by one, which finds the malformed rows and their lines.
"""

import hashlib
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from servestudy.errors import UserError
from servestudy.progress import progress_meter
from servestudy.traces import LFS_POINTER_START, azure, bailian, burstgpt, mooncake
from servestudy.traces.column_map import parse_columns
from servestudy.traces.formats import CsvFormat, JsonlFormat, Reader, all_checked, checked, shown
from servestudy.traces.mapped import mapped_csv, mapped_jsonl

FORMATS: dict[str, CsvFormat | JsonlFormat] = {
    "azure": azure.FORMAT,
    "burstgpt": burstgpt.FORMAT,
    "bailian": bailian.FORMAT,
    "mooncake": mooncake.FORMAT,
}
MAPPED = {"csv": mapped_csv, "jsonl": mapped_jsonl}
BLOCK_BYTES = 4 << 20
REPORTED_ROWS = 5


class MalformedRow(NamedTuple):
    """A row that could not be used: its line (from 1, the header counts), its text, and why."""

    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text!r} ({self.reason})"


@dataclass(frozen=True)
class Batch:
    """The valid rows of one block, in file order, and what was left out of it."""

    time_s: np.ndarray
    """float64 (n,): source time."""
    prompt_tokens: np.ndarray
    """int32 (n,), above 0."""
    output_tokens: np.ndarray
    """int32 (n,), above 0."""
    line: np.ndarray
    """int64 (n,): line in the file, from 1."""
    zero_token_rows: int
    malformed_rows: int
    first_malformed: list[MalformedRow]


class TraceFile:
    """One pass over a raw trace: iterate over its batches, then read the counts and the sha256.

    `trace_format` is a key of FORMATS, or one of MAPPED with the `columns` that it needs. A row is valid if it has a
    finite time and more than 0 prompt and output tokens (rule of the published portability study). The rest is counted:
    rows with zero tokens, and malformed rows. Rows stay in file order even where time goes backwards.

    Iterating raises UserError for a file that is missing, empty, a Git LFS pointer, without a needed column
    or without a valid row, and at the end if the share of malformed rows, or of times that go backwards,
    among the rows is above `max_bad_share`. Smaller shares are reported on stderr.
    """

    def __init__(self, path: Path | str, trace_format: str, max_bad_share: float, columns: str = ""):
        self.path = Path(path)
        self.layout = MAPPED[trace_format](parse_columns(columns)) if columns else FORMATS[trace_format]
        self.max_bad_share = max_bad_share
        self.valid_rows = self.zero_token_rows = self.malformed_rows = self.backward_times = 0
        self.first_malformed: list[MalformedRow] = []
        self.first_backward_line = 0
        self.sha256 = ""

    @property
    def rows(self) -> int:
        """All rows seen, of whatever kind; blank lines are none."""
        return self.valid_rows + self.zero_token_rows + self.malformed_rows

    def __iter__(self) -> Iterator[Batch]:
        last_time_s = -math.inf
        digest = hashlib.sha256()
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror}); fetch or synthesize it first") from None
        size = self.path.stat().st_size
        with file, progress_meter(size, f"reading {self.path.name}", "B") as advance:
            start = file.peek(len(LFS_POINTER_START))
            if not start:
                raise UserError(f"{self.path}: the file is empty; delete it and fetch it again")
            if start.startswith(LFS_POINTER_START):
                raise UserError(
                    f"{self.path}: a Git LFS pointer, not the data; delete it and fetch it again, "
                    "or run `git lfs pull` in the repository it comes from"
                )
            reader, consumed = self.layout.open(file, self.path)
            digest.update(consumed)
            advance(len(consumed))
            line = 1 + consumed.count(b"\n")
            for block in self._blocks(file):
                digest.update(block)
                batch, lines = _parse(reader, block, line)
                line += lines
                last_time_s = self._count(batch, last_time_s)
                yield batch
                advance(len(block))
        self.sha256 = digest.hexdigest()
        self._judge()

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """The rest of the file in pieces of whole lines; the last line may lack its end."""
        rest = b""
        while piece := file.read(BLOCK_BYTES):
            end = piece.rfind(b"\n") + 1
            if end:
                yield rest + piece[:end]
                rest = piece[end:]
            else:
                rest += piece
            if len(rest) > BLOCK_BYTES:
                raise UserError(f"{self.path}: a line longer than {BLOCK_BYTES} bytes; this is not a trace")
        if rest:
            yield rest

    def _count(self, batch: Batch, last_time_s: float) -> float:
        self.valid_rows += len(batch.time_s)
        self.zero_token_rows += batch.zero_token_rows
        self.malformed_rows += batch.malformed_rows
        room = REPORTED_ROWS - len(self.first_malformed)
        self.first_malformed += batch.first_malformed[:room]
        if not len(batch.time_s):
            return last_time_s
        backward = np.flatnonzero(np.diff(batch.time_s, prepend=last_time_s) < 0)
        if len(backward) and not self.backward_times:
            self.first_backward_line = int(batch.line[backward[0]])
        self.backward_times += len(backward)
        return float(batch.time_s[-1])

    def _judge(self) -> None:
        """Report what was wrong, or stop."""
        if not self.rows:
            raise UserError(f"{self.path}: it holds no rows; delete it and fetch it again")
        findings = []
        if self.malformed_rows:
            first = f"the first: {'; '.join(map(str, self.first_malformed))}"
            findings.append((self.malformed_rows, "are malformed and left out", first))
        if self.backward_times:
            first = f"the first: line {self.first_backward_line}"
            findings.append((self.backward_times, "have a time before their predecessor's", first))
        for count, what, first in findings:
            text = f"{self.path}: {count} of {self.rows} rows ({_percent(count / self.rows)}) {what}; {first}"
            if count > self.max_bad_share * self.rows:
                raise UserError(
                    f"{text}. The limit is {_percent(self.max_bad_share)} (traces.max_bad_share): "
                    "mend or replace the file, or raise the limit"
                )
            print(f"warning: {text}", file=sys.stderr)
        if self.zero_token_rows:
            print(
                f"{self.path}: {self.zero_token_rows} of {self.rows} rows have no prompt or no output tokens "
                "and are left out",
                file=sys.stderr,
            )
        if not self.valid_rows:
            raise UserError(f"{self.path}: none of its {self.rows} rows is valid (a time, prompt > 0, output > 0)")


def _parse(reader: Reader, block: bytes, first_line: int) -> tuple[Batch, int]:
    """Parse a block of whole lines; returns its batch and its number of lines."""
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    columns = reader.columns(block)
    if columns is not None and len(columns[0]) == lines and all_checked(*columns):
        line = np.arange(first_line, first_line + lines)
        malformed_rows, first_malformed = 0, []
    else:
        *columns, line, malformed_rows, first_malformed = _one_by_one(reader, block, first_line)
    time_s, prompt, output = columns
    valid = (prompt > 0) & (output > 0)
    zero_token_rows = len(valid) - int(np.count_nonzero(valid))
    if zero_token_rows:
        time_s, prompt, output, line = time_s[valid], prompt[valid], output[valid], line[valid]
    return Batch(time_s, prompt, output, line, zero_token_rows, malformed_rows, first_malformed), lines


def _one_by_one(reader: Reader, block: bytes, first_line: int) -> tuple:
    """Slow path: the good rows as columns, their lines, and the malformed ones. Blank lines are skipped."""
    rows, lines, malformed_rows = [], [], 0
    first_malformed: list[MalformedRow] = []
    for number, text in enumerate(block.split(b"\n"), start=first_line):
        text = text.removesuffix(b"\r")
        if not text.strip():
            continue
        try:
            rows.append(checked(*reader.row(text)))
            lines.append(number)
        except ValueError as error:
            malformed_rows += 1
            if len(first_malformed) < REPORTED_ROWS:
                cut = shown(text.decode("utf-8", "backslashreplace"))
                first_malformed.append(MalformedRow(number, cut, str(error)))
    time_s, prompt, output = zip(*rows, strict=True) if rows else ((), (), ())
    return (
        np.array(time_s, np.float64),
        np.array(prompt, np.int32),
        np.array(output, np.int32),
        np.array(lines, np.int64),
        malformed_rows,
        first_malformed,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"

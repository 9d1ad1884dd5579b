"""Freezing: cut the planned windows out of a raw trace, once, with a hash of their content."""

import csv
import errno
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.tables import write_table
from servestudy.traces.reading import TraceFile
from servestudy.traces.registry import Source
from servestudy.windows.descriptors import descriptors
from servestudy.windows.frozen import WINDOW_SCHEMA
from servestudy.windows.sampling import WINDOW_REQUESTS, Window, plan_windows

LONGER_REQUESTS = 2 * WINDOW_REQUESTS

SPOOL_ROW = np.dtype([("time_s", "<f8"), ("prompt_tokens", "<i4"), ("output_tokens", "<i4")])


def freeze(
    source: Source,
    trace_path: Path | str,
    out_parquet: Path | str,
    out_index_csv: Path | str,
    stage0_windows: int,
    extension_windows: int,
    max_bad_share: float,
    out_longer: Path | str | None = None,
) -> list[Window]:
    """Write a source's window table (`WINDOW_SCHEMA`) and window index (one row a window).

    `out_longer`: another window table, each window with the rows that follow, LONGER_REQUESTS in all or up to the end
    of the trace.

    One pass over the raw file. The windows depend on the number of valid rows, so the columns are spooled
    (16 bytes a row) to an unnamed file beside the output and cut there: memory does not grow with the trace.
    Raises UserError for what `TraceFile` and `plan_windows` object to, and if the file's sha256 or number of
    valid rows is not the registered one.
    """
    folder = Path(out_parquet).parent
    folder.mkdir(parents=True, exist_ok=True)
    trace = TraceFile(trace_path, source.format, max_bad_share, source.columns)
    with _said_if_full(folder):
        with tempfile.TemporaryFile(dir=folder) as spool:
            _spool(trace, spool)
            _compare(source, trace)
            windows = plan_windows(
                source.id,
                trace.valid_rows,
                source.skip_rows,
                source.sampling_seed,
                stage0_windows,
                extension_windows,
            )
            spooled = np.memmap(spool, SPOOL_ROW, mode="r")
            longer = [np.array(spooled[window.start_row :][:LONGER_REQUESTS]) for window in windows]
        cuts = [cut[:WINDOW_REQUESTS] for cut in longer]
        if out_longer is not None:
            write_table(_table(source, windows, longer), WINDOW_SCHEMA, out_longer)
        write_table(_table(source, windows, cuts), WINDOW_SCHEMA, out_parquet)
        index = [_index_row(source, trace, window, cut) for window, cut in zip(windows, cuts, strict=True)]
        _write_csv(out_index_csv, list(index[0]), [list(row.values()) for row in index])
    return windows


def merge_indexes(paths: list[Path | str], out: Path | str) -> None:
    """Write one window index out of several, in the order given; raises UserError if their columns differ."""
    header: list[str] | None = None
    merged = []
    for path in paths:
        with Path(path).open(newline="", encoding="utf-8") as file:
            names, *rows = csv.reader(file)
        if header is not None and names != header:
            raise UserError(f"{path}: its columns differ from those of {paths[0]}; delete both and freeze again")
        header = names
        merged += rows
    _write_csv(out, header or [], merged)


def content_sha256(time_s: np.ndarray, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> str:
    """sha256 over the little-endian bytes of time (float64), prompt and output tokens (int64), file order."""
    digest = hashlib.sha256(time_s.astype("<f8").tobytes())
    digest.update(prompt_tokens.astype("<i8").tobytes())
    digest.update(output_tokens.astype("<i8").tobytes())
    return digest.hexdigest()


@contextmanager
def _said_if_full(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk into a UserError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"{folder}: the disk is full; freezing needs {SPOOL_ROW.itemsize} bytes for each row of the trace "
            "there for a while: free some space and run again"
        ) from None


def _spool(trace: TraceFile, spool: BinaryIO) -> None:
    for batch in trace:
        rows = np.empty(len(batch.time_s), SPOOL_ROW)
        for name in SPOOL_ROW.names:
            rows[name] = getattr(batch, name)
        spool.write(rows)
    spool.flush()


def _compare(source: Source, trace: TraceFile) -> None:
    """Stop if the file is not the registered one."""
    for what, found, stated in (
        ("sha256", trace.sha256, source.sha256),
        ("number of valid rows", trace.valid_rows, source.rows),
    ):
        if stated is not None and found != stated:
            raise UserError(
                f"{trace.path}: its {what} is {found}, the registry states {stated} for {source.id}; "
                "delete the file and fetch it again"
            )


def _table(source: Source, windows: list[Window], cuts: list[np.ndarray]) -> pa.Table:
    rows = np.concatenate(cuts)
    lengths = [len(cut) for cut in cuts]
    position = np.concatenate([np.arange(length) for length in lengths])
    return pa.table(
        [
            pa.array([source.id] * len(rows)),
            pa.array(np.repeat([window.window_id for window in windows], lengths)),
            np.repeat([window.number for window in windows], lengths),
            position,
            np.repeat([window.start_row for window in windows], lengths) + position,
            rows["time_s"].copy(),
            rows["prompt_tokens"].copy(),
            rows["output_tokens"].copy(),
        ],
        names=WINDOW_SCHEMA.names,
    )


def _index_row(source: Source, trace: TraceFile, window: Window, cut: np.ndarray) -> dict:
    columns = [cut[name] for name in SPOOL_ROW.names]
    return {
        "window_id": window.window_id,
        "source": source.id,
        "window_number": window.number,
        "evidence_class": window.evidence_class,
        "chronology_stratum": window.chronology_stratum,
        "source_file": trace.path.name,
        "source_file_sha256": trace.sha256,
        "sampling_algorithm": window.sampling_algorithm,
        "sampling_seed": window.sampling_seed,
        "skip_rows": source.skip_rows,
        "valid_rows": trace.valid_rows,
        "zero_token_rows": trace.zero_token_rows,
        "malformed_rows": trace.malformed_rows,
        "first_malformed_line": trace.first_malformed[0].line if trace.first_malformed else "",
        "backward_times": trace.backward_times,
        "start_row": window.start_row,
        "request_count": len(cut),
        "time_s_min": float(cut["time_s"].min()),
        "time_s_max": float(cut["time_s"].max()),
        **descriptors(*columns),
        "content_sha256": content_sha256(*columns),
    }


def _write_csv(path: Path | str, header: list[str], rows: list[list]) -> None:
    with atomic_path(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)

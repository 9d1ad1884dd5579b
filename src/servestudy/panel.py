"""One window file through the whole panel: synthesis, calibration, all regions, all schedulers."""

import csv
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from servestudy.engine_model import EngineModel
from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.metrics import METRICS
from servestudy.progress import progress
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.simulation import TELEMETRY_NAMES, simulate_window
from servestudy.traces.formats import MAX_TOKENS
from servestudy.windows.frozen import FrozenWindow

COLUMNS = ("index", "arrival_s", "prompt_tokens", "output_tokens")
LONG_COLUMNS = ("window_id", "region", "scheduler", "metric", "value")
PLAIN_NUMBER = re.compile(r"\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?\s*")
MEASURED = [metric.name for metric in METRICS] + TELEMETRY_NAMES


def read_window_csv(path: Path | str, window_number: int) -> FrozenWindow:
    """A window from a CSV with the columns index, arrival_s, prompt_tokens, output_tokens; its id is the file's stem.

    Arrivals are seconds of any origin and are taken as the doubles that their text denotes. Rows may be in any
    order; equal arrivals keep their order. Raises UserError that names file, line, column and value.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = reader.fieldnames or []
            missing = [name for name in COLUMNS if name not in header]
            if missing:
                raise UserError(f"{path}: no column {', '.join(missing)}; it must have {', '.join(COLUMNS)}")
            twice = [name for name in COLUMNS if header.count(name) > 1]
            if twice:
                raise UserError(f"{path}: the column {twice[0]} stands twice; which one counts?")
            rows = [_request(path, reader.line_num, row) for row in reader]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; give a CSV with the columns {', '.join(COLUMNS)}") from None
    except csv.Error as error:
        raise UserError(f"{path}: not a readable CSV ({error})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file ({error.reason} at byte {error.start})") from None
    if not rows:
        raise UserError(f"{path}: no request below the header; a window needs at least one")
    time_s, prompt, output = zip(*rows, strict=True)
    return FrozenWindow(path.stem, path.stem, window_number, np.array(time_s), np.array(prompt), np.array(output))


def _request(path: Path, line: int, row: dict) -> tuple[float, int, int]:
    if None in row:
        raise UserError(f"{path}: line {line}: more values than columns ({row[None][0]!r} is too many)")
    return (
        _number(path, line, "arrival_s", row["arrival_s"], float),
        _number(path, line, "prompt_tokens", row["prompt_tokens"], int),
        _number(path, line, "output_tokens", row["output_tokens"], int),
    )


def _number(path: Path, line: int, column: str, text: str | None, kind: type) -> float | int:
    try:
        value = kind(text) if PLAIN_NUMBER.fullmatch(text or "") else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or (kind is int and not 1 <= value <= MAX_TOKENS):
        allowed = f"a whole number from 1 to {MAX_TOKENS}" if kind is int else "a finite number of seconds"
        raise UserError(f"{path}: line {line}: {column} is {text!r}, must be {allowed}")
    return value


def panel_rows(
    window: FrozenWindow,
    schedulers: list[str],
    lambda_ref: float | None = None,
    model: EngineModel = PUBLISHED_MODEL,
    calibrating: EngineModel = PUBLISHED_MODEL,
) -> Iterator[tuple]:
    """Rows of LONG_COLUMNS: lambda_ref first (with empty region and scheduler), then every cell's values.

    Calibrates the window with the model `calibrating` unless `lambda_ref` is given.
    """
    if lambda_ref is None:
        lambda_ref = calibrating.calibrate(window).lambda_ref
    yield window.window_id, "", "", "lambda_ref", lambda_ref
    for name in progress(schedulers, len(schedulers), "schedulers"):
        for cell in simulate_window(window, lambda_ref, name, partial(model.scheduler, name), 1, model):
            for metric in MEASURED:
                yield window.window_id, cell["region"], name, metric, cell[metric]


def write_long_csv(rows: Iterator[tuple], out: Path | str) -> None:
    """Write the long table; numbers with the shortest text that reads back to the same value, undefined as nan."""
    with atomic_path(out) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(LONG_COLUMNS)
        writer.writerows((*key, repr(value)) for *key, value in rows)

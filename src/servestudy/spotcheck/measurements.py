"""Measurements as they are committed: four tables and the provenance, below data/spotcheck/<device>/."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.spotcheck.registry import MEASURED_TABLES, PROVENANCE
from servestudy.tables import column, read_table, write_table

KEY = ("source", "window_number", "variant", "load", "arm", "repetition")
_KEY_FIELDS = (
    column("source", pa.string(), "id of the source"),
    column("window_number", pa.int32(), "number of the window within its source"),
    column("variant", pa.string(), "main, as_published (client and SLAI of the published study) or tight_kv"),
    column("load", pa.float64(), "multiple of the rate that the engine sustains"),
    column("arm", pa.string(), "scheduler: fcfs or slai, with the suffix _as_published there"),
    column("repetition", pa.int32(), "0, 1 ...: the same cell again"),
)
CELLS = pa.schema(
    [
        *_KEY_FIELDS,
        column("window_id", pa.string(), "id of the window"),
        column("episode_sha256", pa.string(), "hash of the requests as replayed, before the time axis is scaled"),
        column("length_scale", pa.float64(), "by what the trace's lengths are divided"),
        column("valid", pa.bool_(), "whether the replay ended, undisturbed"),
        column("why", pa.string(), "why it is not valid"),
        column("attempt", pa.int32(), "1, 2 ...: which attempt this is"),
        column("rate_rps", pa.float64(), "requests a second that were offered"),
        column("kv_tokens", pa.int64(), "KV capacity, tokens"),
        column("tbt_s", pa.float64(), "time between tokens that SLAI was told, s"),
        column("makespan_s", pa.float64(), "end of the last step, s; NaN if not valid, as all below"),
        column("late_s", pa.float64(), "largest delay of a submission, s"),
        column("longest_step_s", pa.float64(), "longest step, s"),
        column("busy_share", pa.float64(), "share of the time in which a GPU computed; NaN on a CPU"),
    ]
)
REQUESTS = pa.schema(
    [
        *_KEY_FIELDS,
        column("request", pa.int32(), "place in the window, from 0"),
        column("arrival_s", pa.float64(), "scheduled arrival, s"),
        column("deadline_s", pa.float64(), "deadline of completion by the published study's rule, s"),
        column("prompt_tokens", pa.int32(), "prompt tokens"),
        column("output_tokens", pa.int32(), "output tokens"),
        column("evictions", pa.int32(), "how often it lost its KV"),
        column("token_steps", pa.list_(pa.int32()), "numbers of the steps that made its tokens"),
    ]
)
STEPS = pa.schema(
    [
        *_KEY_FIELDS,
        column("step", pa.int32(), "number of the step, from 0"),
        column("start_s", pa.float64(), "start, s"),
        column("end_s", pa.float64(), "end, s: the time of its tokens"),
        column("tokens", pa.int32(), "tokens computed"),
        column("requests", pa.int32(), "requests served"),
        column("kv_read", pa.int64(), "KV tokens that the decodes among them held"),
        column("held", pa.int32(), "decodes that the scheduler let wait"),
        column("running", pa.int32(), "admitted requests"),
        column("waiting", pa.int32(), "waiting requests"),
        column("kv_blocks", pa.int32(), "KV blocks taken after it"),
        column("evictions", pa.int32(), "evictions in it"),
    ]
)
CALIBRATION = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("window_number", pa.int32(), "number of the window within its source"),
        column("window_id", pa.string(), "id of the window"),
        column("prefill_s", pa.float64(), "time to the first token of one mean prompt alone, s"),
        column("decode_step_s", pa.float64(), "median decode step of it, s"),
        column("burst_rate_rps", pa.float64(), "requests a second of a burst of all"),
        column("mean_step_s", pa.float64(), "mean step of the burst, s"),
        column("slow_step_s", pa.float64(), "99th percentile of its steps, s"),
        column("rate_rps", pa.float64(), "rate that the engine just sustains"),
        column("bracketed", pa.bool_(), "whether a sustained and an unsustained rate were seen"),
        column("tbt_s", pa.float64(), "target time between tokens, s"),
        column("ttft_s", pa.float64(), "target time to first token, s"),
        column("tried_rps", pa.list_(pa.float64()), "rates of the open loops"),
        column("sustained", pa.list_(pa.bool_()), "whether each was sustained"),
    ]
)
TABLES = dict(zip(MEASURED_TABLES, (CELLS, REQUESTS, STEPS, CALIBRATION), strict=True))


@dataclass(frozen=True)
class Measurements:
    """Tables by their names, invalid cells with no requests and steps; `provenance` as it was recorded."""

    cells: pd.DataFrame
    requests: pd.DataFrame
    steps: pd.DataFrame
    calibration: pd.DataFrame
    provenance: dict[str, Any]


def collect(measured: Path, out: Path) -> None:
    """Make the tables of the cell files that a measurement wrote, as far as it came.

    Raises UserError if there is no cell, or a file that is none.
    """
    cells, requests, steps = [], [], []
    for content in _contents(measured / "cells"):
        key = {name: content[name] for name in KEY}
        cells.append({name: np.nan if content.get(name) is None else content[name] for name in CELLS.names})
        if not content["valid"]:
            continue
        requests += _rows(key, "request", content["requests"])
        steps += _rows(key, "step", content["steps"])
    if not any(cell["valid"] for cell in cells):
        raise UserError(f"{measured}: no valid cell; run `servestudy spotcheck-measure --out {measured}` to its end")
    calibration = [{name: row[name] for name in CALIBRATION.names} for row in _contents(measured / "calibration")]
    for name, rows in (("cells", cells), ("requests", requests), ("steps", steps), ("calibration", calibration)):
        schema = TABLES[name]
        write_table(pa.Table.from_pylist(rows, schema), schema, out / f"{name}.parquet")
    with atomic_path(out / PROVENANCE) as part:
        text = json.dumps(_json(measured / PROVENANCE), indent=1, sort_keys=True)
        part.write_text(text + "\n", encoding="utf-8")


def read_measurements(folder: Path | str) -> Measurements:
    """What `collect` wrote. Raises UserError if something is missing or unreadable."""
    folder = Path(folder)
    tables = {name: read_table(folder / f"{name}.parquet", schema).to_pandas() for name, schema in TABLES.items()}
    return Measurements(**tables, provenance=_json(folder / PROVENANCE))


def _rows(key: dict, number: str, columns: dict[str, list]) -> list[dict]:
    names = list(columns)
    return [
        {**key, number: place, **dict(zip(names, values, strict=True))}
        for place, values in enumerate(zip(*columns.values(), strict=True))
    ]


def _contents(folder: Path) -> list[dict]:
    return [_json(path) for path in sorted(folder.glob("*.json"))]


def _json(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; is it the folder of a measurement?") from None
    except ValueError:
        raise UserError(f"{path}: not a JSON file; delete it and measure again, only this cell is lost") from None

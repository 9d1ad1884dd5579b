"""The cells of one shard: one source and scheduler, all windows, regions and repetitions."""

import hashlib
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from servestudy.engine.fixed_step_records import Outcome, Telemetry
from servestudy.engine_model import EngineModel
from servestudy.errors import UserError
from servestudy.metrics import METRICS
from servestudy.progress import progress
from servestudy.schedulers.protocol import Scheduler
from servestudy.tables import column, write_table
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import REGIONS, Workload

CELL_SCHEMA = pa.schema(
    [
        column("model", pa.string(), "engine model"),
        column("source", pa.string(), "id of the source"),
        column("window_id", pa.string(), "id of the window"),
        column("window_number", pa.int32(), "number of the window within its source"),
        column("region", pa.string(), "load region"),
        column("scheduler", pa.string(), "name of the scheduler"),
        column("repetition", pa.int32(), "0 or 1 ...: the same cell run again from nothing"),
        column("load_factor", pa.float64(), "absolute compression of arrival gaps and slack"),
        column("synthesis_seed", pa.int64(), "seed of the prediction noise; none in the serving model", nullable=True),
        *(column(metric.name, pa.float64(), f"{metric.definition} [{metric.unit}]; NaN if {metric.undefined_if}")
          for metric in METRICS),
        column("queue_depth_mean", pa.float64(), "waiting requests after enqueueing, before admission: mean"),
        column("queue_depth_max", pa.int64(), "the same: maximum"),
        column("batch_saturation_mean", pa.float64(), "running requests at the end of a step over slots: mean"),
        column("batch_saturation_max", pa.float64(), "the same: maximum"),
        column("kv_occupancy_mean", pa.float64(), "KV tokens at the end of a step over capacity: mean"),
        column("kv_occupancy_max", pa.float64(), "the same: maximum; may exceed 1"),
        column("admission_control_activations", pa.int64(), "requests left waiting while a slot was free, over steps"),
        column("preemption_or_reorder_events", pa.int64(), "evictions"),
        column("prefill_decode_contention_fraction", pa.float64(), "share of steps with both; 0 as published"),
        column("token_budget_saturation_fraction", pa.float64(), "share of full steps; 0 as published"),
        column("n_steps", pa.int64(), "executed steps"),
        column("rejected_requests", pa.int64(), "requests turned away; always 0 in the published model as published"),
        column("unfinished_requests", pa.int64(), "requests that still waited or ran when the run ended"),
        column("outcome_sha256", pa.string(), "hash of every request's first token and completion step"),
    ]
)  # fmt: skip
TELEMETRY_NAMES = [field.name for field in fields(Telemetry)]


def outcome_hash(outcome: Outcome) -> str:
    """Equal for two runs if and only if every request has the same first token and completion step in both."""
    by_id = np.argsort(outcome.completed_ids)
    events = np.stack([outcome.completed_ids, outcome.first_token_step, outcome.completion_step])[:, by_id]
    return hashlib.sha256(events.astype("<i8").tobytes()).hexdigest()


def measure(outcome: Outcome, scaled: Workload, model: EngineModel) -> dict[str, float | int | str]:
    """Metrics, telemetry and outcome hash of one run on a scaled window, by name."""
    rejected = len(outcome.rejected_ids)
    return model.metrics(outcome, scaled) | {
        "rejected_requests": rejected,
        "unfinished_requests": len(scaled) - len(outcome.completed_ids) - rejected,
        "outcome_sha256": outcome_hash(outcome),
    }


def simulate_cell(
    workload: Workload, load_factor: float, scheduler: Scheduler, name: str, model: EngineModel
) -> dict[str, float | int | str]:
    """`measure` of one cell. `workload` is the unscaled window."""
    scaled = model.scaled(workload, load_factor)
    return measure(model.run(scaled, scheduler, name), scaled, model)


@contextmanager
def failures_named(cell: str, name: str) -> Iterator[None]:
    """Turn an exception of a scheduler into a UserError that names it and the cell."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise UserError(
            f"scheduler {name} failed in cell {cell}: {type(error).__name__}: {error} "
            f"({Path(place.filename).name}, line {place.lineno})"
        ) from error


def cell_name(window: FrozenWindow, region: str, name: str) -> str:
    return f"{window.source} / {window.window_id} / {region} / {name}"


def cell_row(
    window: FrozenWindow,
    region: str,
    name: str,
    repetition: int,
    load_factor: float,
    measured: dict,
    model: EngineModel,
) -> dict[str, float | int | str]:
    """A row of CELL_SCHEMA."""
    return {
        "model": model.name,
        "source": window.source,
        "window_id": window.window_id,
        "window_number": window.number,
        "region": region,
        "scheduler": name,
        "repetition": repetition,
        "load_factor": load_factor,
        "synthesis_seed": model.noise_seed(window),
        **measured,
    }


def simulate_window(
    window: FrozenWindow,
    lambda_ref: float,
    name: str,
    make: Callable[[], Scheduler],
    repetitions: int,
    model: EngineModel,
    regions: Iterable[str] = REGIONS,
) -> list[dict]:
    """Rows of CELL_SCHEMA for one window: repetitions in order, regions innermost.

    Each repetition starts from the frozen rows, with a new scheduler for each cell. Raises UserError that names the
    cell if the scheduler raises, or if repetitions differ in any bit.
    """
    rows: list[dict] = []
    first: dict[str, str] = {}
    for repetition in range(repetitions):
        workload = model.workload(window)
        for region in regions:
            load_factor = lambda_ref * REGIONS[region]
            cell = cell_name(window, region, name)
            with failures_named(cell, name):
                measured = simulate_cell(workload, load_factor, make(), name, model)
            digits = repr(measured)  # NaN equals NaN, and every bit counts
            if first.setdefault(region, digits) != digits:
                raise UserError(
                    f"cell {cell}: repetition {repetition} differs from repetition 0, so {name} is not deterministic; "
                    "look for state that reset() does not clear, for random numbers without a seed, or for sets"
                )
            rows.append(cell_row(window, region, name, repetition, load_factor, measured, model))
    return rows


def require_calibration(windows: list[FrozenWindow], lambda_ref: dict[str, float]) -> None:
    """Raise UserError if a window has no reference load."""
    missing = [window.window_id for window in windows if window.window_id not in lambda_ref]
    if missing:
        raise UserError(f"no calibration for {', '.join(missing)}; run `snakemake --forcerun calibrate_windows`")


def simulate_shard(
    windows: list[FrozenWindow],
    lambda_ref: dict[str, float],
    name: str,
    make: Callable[[], Scheduler],
    repetitions: int,
    model: EngineModel,
    out: Path | str,
) -> None:
    """Simulate a scheduler on all windows of a source and write the cells.

    `lambda_ref` is by window id. Raises UserError as `simulate_window`, or if a window has no calibration.
    """
    require_calibration(windows, lambda_ref)
    rows = [
        row
        for window in progress(windows, len(windows), f"{name}, windows")
        for row in simulate_window(window, lambda_ref[window.window_id], name, make, repetitions, model)
    ]
    write_table(pa.Table.from_pylist(rows, CELL_SCHEMA), CELL_SCHEMA, out)

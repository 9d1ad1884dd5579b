"""The reference load of a window: where first-in-first-out first has a late request.

Source: the published study's calibration. The violation rate need not be monotone in the load, so the result is
the point that this very bisection path ends at; the number of halvings is part of the rule.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from servestudy.engine.fixed_step_records import STEP_S
from servestudy.engine_model import Calibration
from servestudy.errors import UserError
from servestudy.metrics import slo_violation_rate
from servestudy.progress import progress
from servestudy.published_model import PUBLISHED_MODEL, PublishedModel
from servestudy.schedulers.protocol import ReplicaLimits
from servestudy.tables import column, read_table, write_table
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import Workload

LOG10_LOWEST, LOG10_HIGHEST = -2.0, 4.0
HALVINGS = 30
GRID_STEP = 0.01
"""Decades between two loads of the grid of the rule `first_crossing`."""

CALIBRATION_SCHEMA = pa.schema(
    [
        column("model", pa.string(), "engine model"),
        column("source", pa.string(), "id of the source"),
        column("window_id", pa.string(), "id of the window"),
        column("lambda_ref", pa.float64(), "reference load factor"),
        column("load_factors", pa.list_(pa.float64()), "load factors that the bisection tried, in order"),
        column(
            "violation_rates",
            pa.list_(pa.float64()),
            "share of late requests at each, of FIFO if the rules are published",
        ),
        column(
            "capacity_rps",
            pa.float64(),
            "requests a second that FIFO sustains on the window's requests; NaN in the published model",
        ),
    ]
)


def violation_rate(workload: Workload, load_factor: float, model: PublishedModel) -> float:
    """Share of late requests on the window scaled by `load_factor`; 1 if nothing completed."""
    name = model.rules.calibration.scheduler
    scaled = model.scaled(workload, load_factor)
    rate = slo_violation_rate(model.run(scaled, model.scheduler(name), name), scaled)
    return 1.0 if math.isnan(rate) else rate


def calibrate(
    workload: Workload, threshold: float | None = None, model: PublishedModel = PUBLISHED_MODEL
) -> Calibration:
    """Find `lambda_ref` of an unscaled window: published, by 30 halvings of the decades [-2, 4] with FIFO.

    `threshold` is the violation rate that is too much (default: the rules'). A window that violates at the lower end
    gets 10^-2, one that never violates 10^4. `model` brings the rules of calibration and engine.
    """
    rules = model.rules.calibration
    threshold = rules.threshold if threshold is None else threshold
    if rules.method == "offered_load":
        return Calibration(load_that_fills_the_slots(workload), [], [])
    factors: list[float] = []
    rates: list[float] = []

    def violates(log10_factor: float) -> bool:
        factors.append(10**log10_factor)
        rates.append(violation_rate(workload, factors[-1], model))
        return rates[-1] >= threshold

    low, high = LOG10_LOWEST, LOG10_HIGHEST
    if violates(low):
        return Calibration(10**low, factors, rates)
    if not violates(high):
        return Calibration(10**high, factors, rates)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if violates(middle):
            high = middle
        else:
            low = middle
    end = (low + high) / 2
    if rules.method == "first_crossing":
        tried = (end - 1 + place * GRID_STEP for place in range(round(1 / GRID_STEP)))
        end = next((log10_factor for log10_factor in tried if violates(log10_factor)), end)
    return Calibration(10**end, factors, rates)


def load_that_fills_the_slots(workload: Workload) -> float:
    """The load factor at which the output tokens of the window, one a step, take all slots while requests arrive.

    Raises UserError if all requests arrive at once: no load factor spreads them.
    """
    if not workload.arrival_s[-1] > 0:
        raise UserError("all requests of the window arrive at one time, so it has no offered load; use the bisection")
    slot_s = float(workload.output_tokens.sum()) * STEP_S / ReplicaLimits().max_num_seqs
    return float(workload.arrival_s[-1]) / slot_s


def calibrate_windows(
    windows: list[FrozenWindow], out: Path | str, model_name: str, find: Callable[[FrozenWindow], Calibration]
) -> None:
    """Calibrate all windows of a source with `find` and write the table."""
    rows = []
    for window in progress(windows, len(windows), "calibrated windows"):
        found = find(window)
        rows.append({"model": model_name, "source": window.source, "window_id": window.window_id, **asdict(found)})
    write_table(pa.Table.from_pylist(rows, CALIBRATION_SCHEMA), CALIBRATION_SCHEMA, out)


def read_lambda_ref(path: Path | str) -> dict[str, float]:
    """Reference load factor by window id."""
    table = read_table(path, CALIBRATION_SCHEMA)
    return dict(zip(table["window_id"].to_pylist(), table["lambda_ref"].to_pylist(), strict=True))

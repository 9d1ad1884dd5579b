"""The reference load of a window: where first-in-first-out first has a late request.

Source: the published study's calibration. The violation rate need not be monotone in the load, so the result is
the point that this very bisection path ends at; the number of halvings is part of the rule.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from servestudy.engine.fixed_step import MODEL, run
from servestudy.metrics import slo_violation_rate
from servestudy.progress import progress
from servestudy.schedulers.published.fifo import Fifo
from servestudy.tables import column, read_table, write_table
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import Workload, rescale, synthesise

LOG10_LOWEST, LOG10_HIGHEST = -2.0, 4.0
HALVINGS = 30
VIOLATION_THRESHOLD = 0.005

CALIBRATION_SCHEMA = pa.schema(
    [
        column("model", pa.string(), "engine model"),
        column("source", pa.string(), "id of the source"),
        column("window_id", pa.string(), "id of the window"),
        column("lambda_ref", pa.float64(), "reference load factor"),
        column("load_factors", pa.list_(pa.float64()), "load factors that the bisection tried, in order"),
        column("violation_rates", pa.list_(pa.float64()), "FIFO's share of late requests at each"),
    ]
)


@dataclass(frozen=True)
class Calibration:
    """`lambda_ref`, and the violation curve: each load factor that the bisection tried with FIFO's rate there."""

    lambda_ref: float
    load_factors: list[float]
    violation_rates: list[float]


def fifo_violation_rate(workload: Workload, load_factor: float) -> float:
    """FIFO's share of late requests on the window scaled by `load_factor`; 1 if nothing completed."""
    scaled = rescale(workload, load_factor)
    rate = slo_violation_rate(run(scaled.requests(), scaled.output_tokens.tolist(), Fifo()), scaled)
    return 1.0 if math.isnan(rate) else rate


def calibrate(workload: Workload, threshold: float = VIOLATION_THRESHOLD) -> Calibration:
    """Find `lambda_ref` of an unscaled window by 30 halvings of the decades [-2, 4].

    `threshold` is the violation rate that is too much. A window that violates at the lower end gets 10^-2, one that
    never violates 10^4.
    """
    factors: list[float] = []
    rates: list[float] = []

    def violates(log10_factor: float) -> bool:
        factors.append(10**log10_factor)
        rates.append(fifo_violation_rate(workload, factors[-1]))
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
    return Calibration(10 ** ((low + high) / 2), factors, rates)


def calibrate_windows(windows: list[FrozenWindow], out: Path | str) -> None:
    """Calibrate all windows of a source and write the table."""
    rows = []
    for window in progress(windows, len(windows), "calibrated windows"):
        workload = synthesise(window.time_s, window.prompt_tokens, window.output_tokens, window.number)
        found = calibrate(workload)
        rows.append({"model": MODEL, "source": window.source, "window_id": window.window_id, **asdict(found)})
    write_table(pa.Table.from_pylist(rows, CALIBRATION_SCHEMA), CALIBRATION_SCHEMA, out)


def read_lambda_ref(path: Path | str) -> dict[str, float]:
    """Reference load factor by window id."""
    table = read_table(path, CALIBRATION_SCHEMA)
    return dict(zip(table["window_id"].to_pylist(), table["lambda_ref"].to_pylist(), strict=True))

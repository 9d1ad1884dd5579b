"""The reference load of a window: where first-in-first-out first has a late request.

Source: the published study's calibration. The violation rate need not be monotone in the load, so the result is
the point that this very bisection path ends at; the number of halvings is part of the rule.
"""

import math
from dataclasses import dataclass

from servestudy.engine.fixed_step import Outcome, run
from servestudy.metrics import slo_violation_rate
from servestudy.schedulers.published.fifo import Fifo
from servestudy.workload import Workload, rescale

LOG10_LOWEST, LOG10_HIGHEST = -2.0, 4.0
HALVINGS = 30
VIOLATION_THRESHOLD = 0.005


@dataclass(frozen=True)
class Calibration:
    """`lambda_ref`, and the violation curve: each load factor that the bisection tried with FIFO's rate there."""

    lambda_ref: float
    load_factors: list[float]
    violation_rates: list[float]


def fifo_outcome(workload: Workload, load_factor: float) -> tuple[Workload, Outcome]:
    """Run FIFO on the window scaled by `load_factor`; return the scaled window and the outcome."""
    scaled = rescale(workload, load_factor)
    return scaled, run(scaled.requests(), scaled.output_tokens.tolist(), Fifo())


def calibrate(workload: Workload) -> Calibration:
    """Find `lambda_ref` of an unscaled window by 30 halvings of the decades [-2, 4].

    A window that violates at the lower end gets 10^-2, one that never violates 10^4.
    """
    factors: list[float] = []
    rates: list[float] = []

    def violates(log10_factor: float) -> bool:
        factor = 10**log10_factor
        scaled, outcome = fifo_outcome(workload, factor)
        rate = slo_violation_rate(outcome, scaled)
        factors.append(factor)
        rates.append(1.0 if math.isnan(rate) else rate)
        return rates[-1] >= VIOLATION_THRESHOLD

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

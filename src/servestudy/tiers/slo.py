"""Targets of each tier, how many requests meet them, and how even that is over tiers and requests."""

from __future__ import annotations

import numpy as np

FIRST_TIER, LAST_TIER = (1.0, 0.1), (20.0, 0.5)
"""(time to first token, time between tokens) in seconds: those of the interactive and the batch class of the serving
model in config/serving.yaml."""


def targets(tiers: int) -> np.ndarray:
    """Targets of tiers 0 .. K-1, [tier, (ttft, tbt)] in seconds: from the first to the last in equal ratios.

    A single tier has the geometric middle.
    """
    steps = np.full(1, 0.5) if tiers == 1 else np.arange(tiers) / (tiers - 1)
    first, last = np.log(FIRST_TIER), np.log(LAST_TIER)
    return np.exp(first + steps[:, None] * (last - first))


def jain(values: np.ndarray) -> float:
    """Jain's fairness index: 1 if all are equal, 1/n if one has everything; NaN of none, or if all are 0."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else np.nan

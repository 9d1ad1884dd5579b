"""A slow, literal simulator of the published portability study, kept apart from the package on purpose."""

from __future__ import annotations

from .engine import Limits, Request, Result, simulate
from .schedulers import SCHEDULERS

__all__ = ["SCHEDULERS", "Limits", "Request", "Result", "run"]


def run(requests, scheduler_name: str, limits: Limits | None = None) -> Result:
    """Run one scheduler, a new instance, over requests (dicts with the fields of Request, or Requests)."""
    limits = limits or Limits()
    records = [Request(**r) if isinstance(r, dict) else r for r in requests]
    return simulate(records, SCHEDULERS[scheduler_name](limits), limits)

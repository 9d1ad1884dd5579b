"""Jumping against stepping for the serving schedulers on windows as the study runs them."""

from dataclasses import replace

import numpy as np

from servestudy.engine.outcome import Outcome
from servestudy.engine.replica_config import replica_limits
from servestudy.schedulers.registry import schedulers_of
from servestudy.serving_model import ServingModel
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import REGIONS

SCHEDULERS = schedulers_of("serving")
SCARCE_BLOCKS = 700
"""A tenth of the default: decodes run out of KV, so that there are preemptions."""


def with_scarce_kv(model: ServingModel) -> ServingModel:
    limits = model.replica.limits
    scarce = replica_limits(SCARCE_BLOCKS, limits.max_num_seqs, limits.max_num_batched_tokens)
    return replace(model, replica=replace(model.replica, limits=scarce))


def difference(one: Outcome, other: Outcome) -> str:
    """What differs: events in other iterations, times by more than 1e-9, anything else at all; "" if nothing does."""
    for name in ("completed_ids", "first_token_step", "completion_step", "preemptions"):
        if not np.array_equal(getattr(one, name), getattr(other, name)):
            return name
    for name in ("admission_s", "first_token_s", "completion_s", "sim_duration_s"):
        if not np.allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=0):
            return name
    for name in ("rejected_ids", "waiting_ids", "running_ids", "last_step", "telemetry"):
        if getattr(one, name) != getattr(other, name):
            return name
    return ""


def compare(
    model: ServingModel, window: FrozenWindow, regions=tuple(REGIONS), schedulers=tuple(SCHEDULERS)
) -> tuple[int, int]:
    """Cells compared and preemptions in them; AssertionError names the first cell that differs."""
    workload = model.workload(window)
    load = model.calibrate(window).lambda_ref
    cells = preemptions = 0
    for region in regions:
        scaled = model.scaled(workload, load * REGIONS[region])
        for name in schedulers:
            jumped = model.run(scaled, model.scheduler(name))
            stepped = model.run(scaled, model.scheduler(name), step_by_step=True)
            differs = difference(jumped, stepped)
            assert not differs, f"{window.window_id}, {region}, {name}: {differs}"
            cells += 1
            preemptions += jumped.telemetry.preemption_or_reorder_events
    return cells, preemptions

"""Small workloads whose course under each rule is known by hand, and a way to run them."""

from dataclasses import replace

import numpy as np

from servestudy.audit.switches import rules_of
from servestudy.engine.fixed_step_corrected import run_with_rules
from servestudy.engine.fixed_step_records import Outcome
from servestudy.published_model import PublishedModel
from servestudy.schedulers.protocol import ReplicaLimits
from servestudy.workload import Workload

SHORT_DRAIN = 300


def workload(*rows: tuple[float, int, int], deadline_s: float | list[float] = 1e3) -> Workload:
    """Requests (arrival in s, prompt tokens, output tokens), predicted exactly."""
    arrival, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    return Workload(
        arrival_s=arrival.astype(float),
        prompt_tokens=prompt,
        output_tokens=output,
        predicted_output_tokens=output,
        deadline_s=np.broadcast_to(np.asarray(deadline_s, dtype=float), len(arrival)).copy(),
        weight=np.ones(len(arrival)),
    )


def course(
    load: Workload,
    scheduler: str,
    limits: ReplicaLimits | None = None,
    step_by_step: bool = False,
    engine: dict | None = None,
    **chosen: str,
) -> Outcome:
    """The run of a scheduler under the arms `chosen`; the drain limit is short unless an arm sets it."""
    model = PublishedModel(rules_of(chosen))
    rules = model.rules.engine_for(scheduler)
    if "drain_cutoff" not in chosen:
        rules = replace(rules, drain_steps=SHORT_DRAIN)
    rules = replace(rules, **(engine or {}))
    outputs = load.output_tokens.tolist()
    limits = limits or ReplicaLimits()
    return run_with_rules(load.requests(), outputs, model.scheduler(scheduler), rules, limits, step_by_step)


def first_tokens(outcome: Outcome) -> dict[int, int]:
    """Step of the first token of each completed request."""
    return dict(zip(outcome.completed_ids.tolist(), outcome.first_token_step.tolist(), strict=True))


def completions(outcome: Outcome) -> dict[int, int]:
    """Step of the last token of each completed request."""
    return dict(zip(outcome.completed_ids.tolist(), outcome.completion_step.tolist(), strict=True))

"""The eleven metrics of a cell: definition, unit, direction and what makes them undefined.

Source: the published study's outcome schema. Undefined is NaN and is never imputed: a scheduler with an undefined
value is left out of that metric's ranking in that condition.
"""

from dataclasses import dataclass

import numpy as np

from servestudy.engine.fixed_step_records import Outcome
from servestudy.workload import Workload


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    higher_is_better: bool
    definition: str
    undefined_if: str = "no request completed"


METRICS = (
    Metric(
        "arrival_normalized_weighted_goodput",
        "share",
        True,
        "weight of requests completed by their deadline over the weight of all requests (ANWG, primary metric)",
        "never (0 if no request completed)",
    ),
    Metric(
        "completion_fraction",
        "share",
        True,
        "completed requests over all requests",
        "never (0 if no request completed)",
    ),
    Metric(
        "weighted_completion_fraction",
        "share",
        True,
        "weight of completed requests over the weight of all requests",
        "never (0 if no request completed)",
    ),
    Metric(
        "slo_violation_rate",
        "share",
        False,
        "share of completed requests that completed after their deadline",
    ),
    Metric(
        "weighted_goodput",
        "share",
        True,
        "weight of requests completed by their deadline over the weight of completed requests",
    ),
    Metric("mean_latency", "s", False, "mean of completion - arrival over completed requests"),
    Metric("p95_latency", "s", False, "95th percentile (linear) of completion - arrival over completed requests"),
    Metric(
        "request_throughput",
        "1/s",
        True,
        "completed requests over the simulated duration (start of the last step)",
        "the simulated duration is 0",
    ),
    Metric(
        "token_throughput",
        "tokens/s",
        True,
        "output tokens of completed requests over the simulated duration (start of the last step)",
        "the simulated duration is 0",
    ),
    Metric("mean_ttft", "s", False, "mean of first token - arrival over completed requests"),
    Metric("p95_ttft", "s", False, "95th percentile (linear) of first token - arrival over completed requests"),
)
"""In the study's order."""

PRIMARY_METRIC = METRICS[0].name


def on_time(outcome: Outcome, workload: Workload) -> np.ndarray:
    """For each completed request: are first token and completion no later than their deadlines?"""
    ids = outcome.completed_ids
    deadline_s = workload.deadline_s if workload.judged_deadline_s is None else workload.judged_deadline_s
    in_time = outcome.completion_s <= deadline_s[ids]
    if workload.ttft_deadline_s is not None:
        in_time &= outcome.first_token_s <= workload.ttft_deadline_s[ids]
    return in_time


def slo_violation_rate(outcome: Outcome, workload: Workload) -> float:
    """Share of completed requests that are late; exactly at the deadline is on time. NaN if none completed."""
    ids = outcome.completed_ids
    if not len(ids):
        return np.nan
    return float(np.mean(~on_time(outcome, workload)))


def cell_metrics(outcome: Outcome, workload: Workload, duration_s: float | None = None) -> dict[str, float]:
    """All metrics of one run, by name. Means run in completion order, which decides last digits.

    `duration_s` is what throughputs are over, if not the study's own duration, the start of the last step.
    """
    if duration_s is None:
        duration_s = outcome.sim_duration_s
    ids = outcome.completed_ids
    weight = np.where(workload.weight > 0, workload.weight, 1.0)  # the study's rule for a weight that is none
    weight_of_all = weight.sum()
    completed_weight = weight[ids].sum()
    on_time_weight = weight[ids][on_time(outcome, workload)].sum()
    values = dict.fromkeys((metric.name for metric in METRICS), np.nan)
    values["arrival_normalized_weighted_goodput"] = on_time_weight / weight_of_all
    values["completion_fraction"] = len(ids) / len(workload)
    values["weighted_completion_fraction"] = completed_weight / weight_of_all
    if len(ids):
        latency = outcome.completion_s - workload.arrival_s[ids]
        ttft = outcome.first_token_s - workload.arrival_s[ids]
        values["slo_violation_rate"] = slo_violation_rate(outcome, workload)
        values["weighted_goodput"] = on_time_weight / completed_weight
        values["mean_latency"] = np.mean(latency)
        values["mean_ttft"] = np.mean(ttft)
        values["p95_latency"], values["p95_ttft"] = np.percentile([latency, ttft], 95, axis=1)
        if duration_s > 0:
            values["request_throughput"] = len(ids) / duration_s
            values["token_throughput"] = workload.output_tokens[ids].sum() / duration_s
    return {name: float(value) for name, value in values.items()}

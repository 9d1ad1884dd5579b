"""Metrics: definitions, undefined values, and last digits."""

import math
from dataclasses import replace

import numpy as np
import pytest

from servestudy.engine.fixed_step import run
from servestudy.metrics import METRICS, cell_metrics
from servestudy.schedulers.protocol import Action, Scheduler
from servestudy.schedulers.published.fifo import Fifo
from servestudy.workload import Workload


class Idle(Scheduler):
    def decide(self, view):
        return Action()


def workload(arrival_s, output, deadline_s):
    count = len(arrival_s)
    return Workload(
        arrival_s=np.array(arrival_s, float),
        prompt_tokens=np.full(count, 10),
        output_tokens=np.array(output),
        predicted_output_tokens=np.array(output),
        deadline_s=np.array(deadline_s, float),
        weight=np.ones(count),
    )


def measure(load, scheduler=None, drain_steps=50):
    outcome = run(load.requests(), load.output_tokens.tolist(), scheduler or Fifo(), drain_steps=drain_steps)
    return cell_metrics(outcome, load)


def test_values_of_two_requests_by_hand():
    values = measure(workload([0, 0], [2, 4], [0.002, 0.003]))
    assert values["arrival_normalized_weighted_goodput"] == 0.5  # exactly at the deadline is on time
    assert values["slo_violation_rate"] == 0.5
    assert values["weighted_goodput"] == 0.5
    assert values["completion_fraction"] == values["weighted_completion_fraction"] == 1.0
    assert values["mean_latency"] == pytest.approx(0.003)
    assert values["mean_ttft"] == values["p95_ttft"] == 0.001
    assert values["p95_latency"] == pytest.approx(0.0039)
    assert values["request_throughput"] == pytest.approx(2 / 0.003)
    assert values["token_throughput"] == pytest.approx(6 / 0.003)


def test_without_completions_shares_of_all_are_zero_and_the_rest_is_undefined():
    values = measure(workload([0, 0], [2, 4], [1, 1]), Idle())
    zero = {"arrival_normalized_weighted_goodput", "completion_fraction", "weighted_completion_fraction"}
    for metric in METRICS:
        value = values[metric.name]
        assert value == 0 if metric.name in zero else math.isnan(value), metric.name


def test_a_run_of_one_step_has_no_throughput():
    values = measure(workload([0], [1], [1]))
    assert math.isnan(values["request_throughput"])
    assert math.isnan(values["token_throughput"])
    assert values["mean_latency"] == 0.001


def test_weights_count_in_weighted_metrics_only():
    load = replace(workload([0, 0], [2, 4], [1, 0.003]), weight=np.array([3.0, 1.0]))
    values = measure(load)
    assert values["arrival_normalized_weighted_goodput"] == values["weighted_goodput"] == 0.75
    assert values["slo_violation_rate"] == 0.5


def test_every_metric_has_a_definition_and_is_returned_in_order():
    values = measure(workload([0], [1], [1]))
    assert list(values) == [metric.name for metric in METRICS]
    assert len({metric.definition for metric in METRICS}) == len(METRICS)


def test_the_metrics_page_says_what_the_code_says(project):
    page = (project / "docs/METRICS.md").read_text(encoding="utf-8")
    for metric in METRICS:
        better = "higher" if metric.higher_is_better else "lower"
        row = f"| {metric.name} | {metric.unit} | {better} | {metric.definition} | {metric.undefined_if} |"
        assert row in page

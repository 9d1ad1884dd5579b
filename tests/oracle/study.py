"""Synthesis, rescaling, calibration and metrics of the published portability study, literally.

Source of the rules: the published study, src/robustbench (stage0_synthesis_v1, load scaling, calibration,
metrics).
"""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from . import run
from .engine import Limits, Request, Result

REGIONS = {
    "LOW": 0.5,
    "PRE_KNEE": 0.8,
    "KNEE": 1.0,
    "POST_KNEE": 1.1,
    "OVERLOAD": 1.2,
    "HIGH_PRESSURE": 1.5,
}
METRICS = (
    "arrival_normalized_weighted_goodput",
    "completion_fraction",
    "weighted_completion_fraction",
    "weighted_goodput",
    "slo_violation_rate",
    "mean_latency",
    "p95_latency",
    "mean_ttft",
    "p95_ttft",
    "request_throughput",
    "token_throughput",
)


def read_window(path: Path) -> list[tuple[float, int, int]]:
    """Rows (time in s, prompt tokens, output tokens) of a raw window."""
    with path.open(newline="") as lines:
        return [
            (float(row["arrival_s"]), int(row["prompt_tokens"]), int(row["output_tokens"]))
            for row in csv.DictReader(lines)
        ]


def synthesize(rows: list[tuple[float, int, int]], window_number: int) -> list[Request]:
    """Requests of a window; the seed depends on the window's number only."""
    rows = sorted(rows, key=lambda row: row[0])
    t0 = rows[0][0]
    rng = np.random.default_rng(900_000 + window_number)
    sigma = math.sqrt(math.log(1 + 0.2**2))
    noise = rng.lognormal(0.0, sigma, len(rows))
    requests = []
    for i, (t, p, o) in enumerate(rows):
        q = min(max(int(np.rint(o * noise[i])), 1), 4096)
        a = max(0.0, t - t0)
        proxy = 0.0004 * p + 0.02 * q
        d = a + 20 * proxy
        requests.append(Request(id=i, arrival=a, prompt=p, predicted=q, output=o, deadline=d, weight=1.0))
    return requests


def rescale(requests: list[Request], factor: float) -> list[Request]:
    """The window with its gaps and its deadline slacks divided by `factor`; ids are renumbered."""
    ordered = sorted(requests, key=lambda r: r.arrival)
    new = 0.0
    scaled = []
    for i, r in enumerate(ordered):
        if i > 0:
            new = new + max(0.0, r.arrival - ordered[i - 1].arrival) / factor
        slack = max(0.0, r.deadline - r.arrival)
        scaled.append(replace(r, id=i, arrival=new, deadline=new + slack / factor))
    return scaled


def calibrate(requests: list[Request], limits: Limits | None = None) -> float:
    """lambda_ref: the load factor at which FIFO first has a violation rate of 0.005, by 30 bisections."""

    def violation(exponent: float) -> float:
        scaled = rescale(requests, 10**exponent)
        rate = metrics(run(scaled, "fifo", limits), scaled)["slo_violation_rate"]
        return 1.0 if math.isnan(rate) else rate

    lo, hi = -2.0, 4.0
    if violation(lo) >= 0.005:
        return 10**lo
    if violation(hi) < 0.005:
        return 10**hi
    for _ in range(30):
        m = (lo + hi) / 2
        if violation(m) < 0.005:
            lo = m
        else:
            hi = m
    return 10 ** ((lo + hi) / 2)


def metrics(result: Result, requests: list[Request | dict]) -> dict[str, float]:
    """The 11 metrics; times in seconds. Means run over completed requests in completion order."""
    requests = [Request(**r) if isinstance(r, dict) else r for r in requests]
    by_id = {r.id: r for r in requests}
    step = result.limits.step_s
    done = [by_id[i] for i in result.completion_order]
    n = len(done)

    def weight(r: Request) -> float:
        return r.weight if r.weight > 0 else 1.0

    completion = [(result.completion_step[r.id] + 1) * step for r in done]
    first = [(result.first_token_step[r.id] + 1) * step for r in done]
    latency = [c - r.arrival for c, r in zip(completion, done, strict=True)]
    ttft = [f - r.arrival for f, r in zip(first, done, strict=True)]

    w_all = sum(weight(r) for r in requests)
    w_done = sum(weight(r) for r in done)
    w_in_time = sum(weight(r) for c, r in zip(completion, done, strict=True) if c <= r.deadline)
    late = sum(1 for c, r in zip(completion, done, strict=True) if c > r.deadline)
    duration = result.sim_duration

    nan = math.nan
    return {
        "arrival_normalized_weighted_goodput": w_in_time / w_all if n else 0.0,
        "completion_fraction": n / len(requests) if n else 0.0,
        "weighted_completion_fraction": w_done / w_all if n else 0.0,
        "weighted_goodput": w_in_time / w_done if n else nan,
        "slo_violation_rate": late / n if n else nan,
        "mean_latency": float(np.mean(latency)) if n else nan,
        "p95_latency": float(np.percentile(latency, 95)) if n else nan,
        "mean_ttft": float(np.mean(ttft)) if n else nan,
        "p95_ttft": float(np.percentile(ttft, 95)) if n else nan,
        "request_throughput": n / duration if n and duration > 0 else nan,
        "token_throughput": sum(r.output for r in done) / duration if n and duration > 0 else nan,
    }

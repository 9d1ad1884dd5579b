"""What a run of the tiers study is measured by, for all requests and for each tier.

Latencies are over completed requests only, percentiles linear, as the study does; NaN where none completed. `published`
time between tokens divides by the output tokens that were left after the last restart, the other by all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from servestudy.tables import column
from servestudy.tiers.outcome import Outcome
from servestudy.tiers.slo import jain, targets

ALL_TIERS = -1
USD_PER_GPU_HOUR = 3.0  # A100, as the study prices it
STATISTICS = ("mean", "p50", "p90", "p99")
LATENCIES = {
    "ttft": "first token - arrival [s]; the first one is kept when a request is restarted",
    "tbt": "(completion - first token) / output tokens [s]",
    "tbt_published": "(completion - first token) / output tokens after the last restart [s]",
    "e2e": "completion - arrival [s]",
}

KEYS = [
    column(
        "preset",
        pa.string(),
        "workload: burst (latency sweep), fixed, fixed_serving (comparison scripts), serving (lengths of the sweep), "
        "or a trace",
    ),
    column("system", pa.string(), "name of the system"),
    column(
        "variant", pa.string(), "published: the preset's rules; or the settings that differ and that the system reads"
    ),
    column("tiers", pa.int32(), "number of tiers K"),
    column("mix", pa.string(), "tier mix"),
    column("requests", pa.int64(), "requests that arrive"),
    column("seed", pa.int64(), "seed of arrivals, lengths and tiers"),
    column("load", pa.string(), "burst: the preset's own rate; else the share of the measured capacity that arrives"),
    column("kv_blocks", pa.int64(), "KV blocks of a replica"),
]
METRIC_SCHEMA = pa.schema(
    [
        *KEYS,
        column("tier", pa.int32(), "the tier that the row is about, 0 the most important; -1: all requests"),
        column("of_tier", pa.int64(), "requests of that tier"),
        column("completed", pa.int64(), "of those, completed"),
        *(
            column(f"{name}_{statistic}_s", pa.float64(), f"{statistic} over completed requests of {meaning}")
            for name, meaning in LATENCIES.items()
            for statistic in STATISTICS
        ),
        column("slo_ttft_s", pa.float64(), "target of the time to first token [s] of the tier; NaN: of several"),
        column("slo_tbt_s", pa.float64(), "target of the time between tokens [s] of the tier; NaN: of several"),
        column("slo_attainment", pa.float64(), "share of requests that met both targets of their tier, of all"),
        column("least_attainment", pa.float64(), "smallest slo_attainment over tiers (max-min fairness); NaN: a tier"),
        column("jain_of_tiers", pa.float64(), "Jain's index of slo_attainment over tiers; NaN: a tier, or all 0"),
        column("jain_of_requests", pa.float64(), "Jain's index of output tokens / e2e over completed requests"),
        column("longest_wait_s", pa.float64(), "longest time to first token; a request without one waits to the end"),
        column("restarts", pa.int64(), "preemptions by recomputation"),
        column("migrations", pa.int64(), "moves between replicas"),
        column(
            "interrupted_share",
            pa.float64(),
            "share of completed requests with a gap between iterations; NaN: not counted",
        ),
        column(
            "interruption_loss", pa.float64(), "mean over completed requests of such gaps over e2e; NaN: not counted"
        ),
        column("end_s", pa.float64(), "time of the last event"),
        column("gpu_busy_s", pa.float64(), "seconds that replicas computed, summed over replicas"),
        column("gpu_paid_s", pa.float64(), "replicas x end_s: nothing is billed less, drained or not"),
        column("usd", pa.float64(), "gpu_paid_s at 3 $ an hour"),
        column("drained_replica_s", pa.float64(), "seconds that replicas were draining, by check of the autoscaler"),
        column("moved_kv_tokens", pa.int64(), "KV tokens of requests that moved"),
        column("moves_aborted", pa.int64(), "staged moves given up"),
    ]
)


def latencies(outcome: Outcome) -> dict[str, np.ndarray]:
    """Each of LATENCIES for every request in seconds; NaN where it has none."""
    decode_s = outcome.completion_s - outcome.first_token_s
    return {
        "ttft": outcome.first_token_s - outcome.arrival_s,
        "tbt": decode_s / outcome.output_tokens,
        "tbt_published": decode_s / outcome.final_decode_tokens,
        "e2e": outcome.completion_s - outcome.arrival_s,
    }


def metric_rows(outcome: Outcome, tiers: int) -> Iterator[dict[str, float | int]]:
    """The columns of METRIC_SCHEMA from `tier` on: all requests, then each of K tiers."""
    measured = latencies(outcome)
    gap_s = (outcome.completion_s - outcome.first_scheduled_s) - outcome.busy_s
    waited_s = np.where(np.isnan(outcome.first_token_s), outcome.end_s, outcome.first_token_s) - outcome.arrival_s
    paid_s = outcome.replicas * outcome.end_s
    limits = targets(tiers)
    met = (measured["ttft"] <= limits[outcome.tier, 0]) & (measured["tbt"] <= limits[outcome.tier, 1])
    met &= outcome.completed
    of_tiers = np.array([met[outcome.tier == tier].mean() for tier in range(tiers) if (outcome.tier == tier).any()])
    rate = outcome.output_tokens[outcome.completed] / measured["e2e"][outcome.completed]
    for tier in (ALL_TIERS, *range(tiers)):
        mine = np.full(len(outcome.tier), True) if tier == ALL_TIERS else outcome.tier == tier
        done = mine & outcome.completed
        row = {"tier": tier, "of_tier": int(mine.sum()), "completed": int(done.sum())}
        for name, values in measured.items():
            row |= zip((f"{name}_{statistic}_s" for statistic in STATISTICS), _summary(values[done]), strict=True)
        counted = done.any() and not np.isnan(gap_s[done]).any()
        is_all = tier == ALL_TIERS
        yield row | {
            "slo_ttft_s": limits[tier, 0] if not is_all or tiers == 1 else np.nan,
            "slo_tbt_s": limits[tier, 1] if not is_all or tiers == 1 else np.nan,
            "slo_attainment": float(met[mine].mean()) if mine.any() else np.nan,
            "least_attainment": float(of_tiers.min()) if is_all else np.nan,
            "jain_of_tiers": jain(of_tiers) if is_all else np.nan,
            "jain_of_requests": jain(rate) if is_all else np.nan,
            "longest_wait_s": float(max(0.0, waited_s[mine].max())) if mine.any() else np.nan,
            "restarts": int(outcome.restarts[mine].sum()),
            "migrations": int(outcome.migrations[mine].sum()),
            "interrupted_share": float((gap_s[done] > 1e-9).mean()) if counted else np.nan,
            "interruption_loss": float((gap_s[done] / measured["e2e"][done]).mean()) if counted else np.nan,
            "end_s": outcome.end_s,
            "gpu_busy_s": outcome.gpu_busy_s,
            "gpu_paid_s": paid_s,
            "usd": paid_s / 3600 * USD_PER_GPU_HOUR,
            "drained_replica_s": outcome.drained_replica_s,
            "moved_kv_tokens": outcome.moved_kv_tokens,
            "moves_aborted": outcome.moves_aborted,
        }


def _summary(values: np.ndarray) -> tuple[float, ...]:
    """STATISTICS of values; NaN of none."""
    if not len(values):
        return (np.nan,) * len(STATISTICS)
    return (float(values.mean()), *map(float, np.percentile(values, [50, 90, 99])))

"""How many requests a second: the preset's own number, or a share of what the replicas can serve."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from servestudy.errors import UserError
from servestudy.tiers.outcome import simulate
from servestudy.tiers.settings import SERVING, Rules, with_settings
from servestudy.tiers.workload import MEAN_CLIPPED_GAP, Workload, draw

BURST = "burst"
PROBE_REQUESTS = 2000
PROBE_SEED = 0


def requests_per_s(load: str, workload: Workload, rules: Rules) -> float:
    """Nominal rate of a load: `burst`, the workload's own rate, or a share of the measured capacity as a number.

    Raises UserError for another load.
    """
    if load == BURST:
        return workload.requests_per_s
    try:
        share = float(load)
    except ValueError:
        share = 0.0
    if not 0 < share < 100:
        raise UserError(f"load is {load!r}; allowed: {BURST}, or a share of the capacity such as 0.9")
    clipped = MEAN_CLIPPED_GAP if workload.gaps is None and workload.arrivals_cv == 1 else 1.0
    return share * clipped * capacity_rps(workload, rules.replicas, rules.total_blocks, rules.max_num_seqs)


@lru_cache(maxsize=64)
def capacity_rps(workload: Workload, replicas: int, total_blocks: int, max_num_seqs: int) -> float:
    """Requests a second that the serving engine completes while none of its replicas lacks work.

    All requests come at once, go to the replica with the fewest outstanding ones and are served first come first
    served, with chunked prefill and without moves; counted is the time between a tenth and half of the completions.
    """
    rules = with_settings(
        replace(SERVING, replicas=replicas, total_blocks=total_blocks, max_num_seqs=max_num_seqs),
        ("dispatch=least_outstanding", "migration=off"),
    )
    probe = draw(replace(workload, requests=PROBE_REQUESTS, requests_per_s=1e6), "uniform", 1, PROBE_SEED, "separate")
    outcome, _ = simulate("ours_one_tier", probe, 1, rules)
    done = np.sort(outcome.completion_s[outcome.completed])
    first, last = len(done) // 10, len(done) // 2
    return (last - first) / float(done[last] - done[first])

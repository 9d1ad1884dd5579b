"""What became of every request of a run on the serving engine, checked, in the same form as on the study's own."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from servestudy.tiers.serving_systems import ServingAssembly
from servestudy.tiers.workload import Requests


def check_cluster(parts: ServingAssembly) -> None:
    """Raise RuntimeError unless each request that came is somewhere, once, and blocks and counts add up everywhere."""
    moving = list(parts.rebalancer.in_transit) if parts.rebalancer else []
    seen = [*moving]
    for replica in parts.replicas:
        batch = replica.engine.batch
        batch.check(replica.engine.received)
        here = [*(p.request_id for p in batch.completed), *batch.running, *batch.queue, *batch.rejected_ids]
        coming = [*replica.engine.coming, *replica.engine.to_receive()]
        seen += [*here, *(p.request_id for p in coming)]
        left = len(batch.running) + len(batch.queue) + sum(replica.can_run(p) for p in coming)
        if sum(replica.requests_of_tier) != left + len(batch.completed) - replica.counted:
            raise RuntimeError(
                f"replica {replica.index} counts {replica.requests_of_tier} requests by tier, has {left}"
            )
    if len(set(seen)) != len(seen) or len(seen) != parts.cluster.arrived:
        raise RuntimeError(f"{parts.cluster.arrived} requests came, {len(set(seen))} are somewhere, {len(seen)} in all")


def columns(parts: ServingAssembly, requests: Requests) -> dict[str, np.ndarray]:
    """Arrays with one entry a request in arrival order, by field of Outcome; NaN where it did not get there."""
    count = len(requests)
    first_scheduled, first_token, completion = ([math.nan] * count for _ in range(3))
    restarts, migrations = [0] * count, [0] * count
    for p in _all(parts):
        number = p.request_id
        if p.admission_s >= 0:
            first_scheduled[number] = p.admission_s
        if p.first_token_s >= 0:
            first_token[number] = p.first_token_s
        if p.completion_s >= 0:
            completion[number] = p.completion_s
        restarts[number] = p.preemptions
    if parts.rebalancer:
        for number, times in parts.rebalancer.moves_of.items():
            migrations[number] = times
    return {
        "first_scheduled_s": np.array(first_scheduled),
        "first_token_s": np.array(first_token),
        "completion_s": np.array(completion),
        "restarts": np.array(restarts),
        "migrations": np.array(migrations),
        "final_decode_tokens": requests.output_tokens.astype(float),  # a preempted request keeps its tokens
        "busy_s": np.full(count, np.nan),  # iterations are not counted by request
    }


def _all(parts: ServingAssembly):
    moving = parts.rebalancer.in_transit.values() if parts.rebalancer else ()
    batches = [replica.engine.batch for replica in parts.replicas]
    return chain(moving, *((*batch.completed, *batch.progress.values()) for batch in batches))

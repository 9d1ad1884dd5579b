"""One run of one system, and what became of every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from servestudy.engine.time_model import TimeModel, time_model
from servestudy.tiers.request import TierRequest, make_requests
from servestudy.tiers.serving_outcome import check_cluster, columns
from servestudy.tiers.serving_replica import arrivals
from servestudy.tiers.serving_systems import ServingAssembly, assemble_serving
from servestudy.tiers.settings import Rules
from servestudy.tiers.systems import Assembly, assemble, system
from servestudy.tiers.workload import Requests


@dataclass(frozen=True)
class Outcome:
    """Arrays have one entry a request in arrival order; NaN where a request did not get that far.

    `final_decode_tokens` is smaller than the output tokens of a request that was restarted.
    """

    arrival_s: np.ndarray
    output_tokens: np.ndarray
    tier: np.ndarray
    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    completion_s: np.ndarray
    final_decode_tokens: np.ndarray
    restarts: np.ndarray
    migrations: np.ndarray
    busy_s: np.ndarray
    end_s: float
    replicas: int
    gpu_busy_s: float
    drained_replica_s: float
    moved_kv_tokens: int
    moves_aborted: int

    @property
    def completed(self) -> np.ndarray:
        return ~np.isnan(self.completion_s)


def simulate(
    name: str,
    requests: Requests,
    tiers: int,
    rules: Rules,
    model: TimeModel | None = None,
    watch: Callable[[ServingAssembly], None] | None = None,
) -> tuple[Outcome, Assembly | ServingAssembly]:
    """Run a system on requests whose tiers are below K. `model` None: Llama-2-7B on an A100, as the rules read it.

    `watch` is called with the parts of the serving engine before the run.

    Raises UserError for an unknown system or for a request that its replicas could never finish (the serving engine
    turns such a request away), RuntimeError if a request is lost or doubled or blocks do not add up.
    """
    if model is None:
        model = time_model("llama_2_7b_a100")
        if rules.prefill_attention == "arithmetic":
            model = model.with_arithmetic_attention()
        by = rules.decode_attention
        model = replace(model, decode_s=model.decode_s * by, kv_token_s=model.kv_token_s * by)
    if rules.engine == "serving":
        return _simulate_serving(name, requests, tiers, rules, model, watch)
    parts = assemble(name, rules, tiers, model)
    runtime = make_requests(requests)
    if not system(name).sees_tiers:
        for request in runtime:
            request.tier = 0
    longest = max(runtime, key=lambda request: request.total_tokens)
    parts.replicas[0].require_fits(longest)
    end_s = parts.cluster.run(runtime, rules.time_limit_s)
    _check(parts)
    return _outcome(runtime, requests, parts, end_s), parts


def _simulate_serving(
    name: str,
    requests: Requests,
    tiers: int,
    rules: Rules,
    model: TimeModel,
    watch: Callable[[ServingAssembly], None] | None,
) -> tuple[Outcome, ServingAssembly]:
    chosen = system(name)
    longest = int((requests.prompt_tokens + requests.output_tokens).max())
    seen = tiers if chosen.sees_tiers else 1
    parts = assemble_serving(name, chosen.dispatch or rules.dispatch, rules, seen, model, longest)
    if watch:
        watch(parts)
    end_s = parts.cluster.run(arrivals(requests, chosen.sees_tiers), rules.time_limit_s)
    check_cluster(parts)
    return Outcome(
        arrival_s=requests.arrival_s,
        output_tokens=requests.output_tokens,
        tier=requests.tier,
        **columns(parts, requests),
        end_s=end_s,
        replicas=len(parts.replicas),
        gpu_busy_s=sum(replica.engine.busy_s for replica in parts.replicas),
        **_totals(parts),
    ), parts


def _totals(parts: Assembly | ServingAssembly) -> dict[str, float]:
    rebalancer, autoscaler = parts.rebalancer, parts.autoscaler
    return {
        "drained_replica_s": autoscaler.drained_s if autoscaler else 0.0,
        "moved_kv_tokens": rebalancer.moved_kv_tokens if rebalancer else 0,
        "moves_aborted": rebalancer.aborted if rebalancer else 0,
    }


def _outcome(runtime: list[TierRequest], requests: Requests, parts: Assembly, end_s: float) -> Outcome:
    def gathered(name: str) -> np.ndarray:
        return np.array([getattr(request, name) for request in runtime], dtype=np.float64)

    return Outcome(
        arrival_s=requests.arrival_s,
        output_tokens=requests.output_tokens,
        tier=requests.tier,
        first_scheduled_s=gathered("first_scheduled_s"),
        first_token_s=gathered("first_token_s"),
        completion_s=gathered("completion_s"),
        final_decode_tokens=gathered("decode_tokens"),
        restarts=gathered("restarts"),
        migrations=gathered("migrations"),
        busy_s=gathered("busy_s"),
        end_s=end_s,
        replicas=len(parts.replicas),
        gpu_busy_s=sum(replica.busy_s for replica in parts.replicas),
        **_totals(parts),
    )


def _check(parts: Assembly) -> None:
    """Nothing lost, nothing twice, blocks add up, times in order."""
    done = [request for replica in parts.replicas for request in replica.completed]
    moving = parts.rebalancer.in_transit if parts.rebalancer else {}
    here = sum(sum(replica.requests_of_tier) for replica in parts.replicas) + len(moving)
    came = parts.cluster.arrived
    if len(set(done)) != len(done) or len(done) + here != came:
        raise RuntimeError(f"{came} requests came, {len(done)} completed and {here} are left")
    for request in done:
        if not request.arrival_s <= request.first_scheduled_s <= request.first_token_s <= request.completion_s:
            raise RuntimeError(f"times of request {request.id} are not in order")
    for replica in parts.replicas:
        coming = [request for request, there in moving.items() if there is replica]
        held = sum(request.blocks for request in (*replica.running(), *coming))
        if held != replica.used_blocks or not 0 <= held <= replica.total_blocks:
            raise RuntimeError(f"replica {replica.index} counts {replica.used_blocks} blocks, requests hold {held}")

"""The systems of the tiers study on the serving engine: one engine, one set of limits, for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from servestudy.engine.cluster import Cluster
from servestudy.engine.replica_config import ReplicaConfig, replica_limits
from servestudy.engine.time_model import TimeModel
from servestudy.errors import UserError
from servestudy.schedulers.protocol import Scheduler
from servestudy.schedulers.serving.sarathi_faithful import SarathiFaithful
from servestudy.schedulers.serving.vllm_faithful import VllmFaithful
from servestudy.tiers.autoscaling import Autoscaler, AutoscalingRules
from servestudy.tiers.dispatch import Dispatcher, Freest, Infaas, LeastOutstanding, OsdiLoad, RoundRobin
from servestudy.tiers.live_migration import LiveMoves, LiveRebalancer, OsdiRebalancer
from servestudy.tiers.serving_replica import ServingReplica
from servestudy.tiers.serving_schedulers import Llumnix24, TierScheduler
from servestudy.tiers.settings import Rules, headroom_of, migration_rules


@dataclass(frozen=True)
class ServingAssembly:
    """A system ready to run."""

    cluster: Cluster
    dispatcher: Dispatcher
    replicas: list[ServingReplica]
    rebalancer: LiveMoves | None
    autoscaler: Autoscaler | None


def _tier_scheduler(rules: Rules) -> Scheduler:
    if rules.queue_order not in ("tier", "fifo"):
        raise UserError(
            f"queue_order is {rules.queue_order!r}; allowed on the serving engine: tier, fifo (decodes go first)"
        )
    return TierScheduler(rules.queue_order == "tier", rules.aging_s, not rules.whole_prompts)


SCHEDULERS: dict[str, Callable[[Rules], Scheduler]] = {
    "infaas_vllm": lambda rules: VllmFaithful(),
    "round_robin_vllm": lambda rules: VllmFaithful(),
    "least_outstanding_vllm": lambda rules: VllmFaithful(),
    "round_robin_orca": lambda rules: TierScheduler(by_tier=False, chunked_prefill=False),
    "round_robin_sarathi": lambda rules: SarathiFaithful(),
    "llumnix24": lambda rules: Llumnix24(),
    "ours": _tier_scheduler,
    "ours_one_tier": _tier_scheduler,
}
MIGRATING = {"llumnix24", "ours", "ours_one_tier"}


def assemble_serving(
    name: str, dispatch: str, rules: Rules, tiers: int, time_model: TimeModel, longest_tokens: int
) -> ServingAssembly:
    """Build a system for K tiers as its replicas see them.

    `longest_tokens`: of prompt and output of any request, which Orca reserves for each. Raises UserError for a system
    that the serving engine does not have, or for a rule that it cannot have.
    """
    if name not in SCHEDULERS:
        raise UserError(f"system {name!r} does not run on the serving engine; allowed: {', '.join(SCHEDULERS)}")
    seqs = rules.max_num_seqs
    if name == "round_robin_orca":
        reserved_blocks = -(-longest_tokens // 16)
        seqs = max(1, min(seqs, rules.total_blocks // reserved_blocks))
    config = ReplicaConfig(replica_limits(rules.total_blocks, seqs, rules.max_batch_tokens), time_model)
    stale: set[ServingReplica] = set()
    replicas = [ServingReplica(index, SCHEDULERS[name](rules), config, tiers, stale) for index in range(rules.replicas)]
    dispatcher = _dispatcher(dispatch, replicas, rules, tiers, stale)
    cluster = Cluster(replicas, dispatcher.choose)
    if name not in MIGRATING or rules.migration == "off" or rules.replicas < 2:
        return ServingAssembly(cluster, dispatcher, replicas, None, None)
    moves = (replicas, migration_rules(rules), cluster.later, cluster.wake, time_model.kv_token_bytes)
    if name == "llumnix24":
        rebalancer: LiveMoves = OsdiRebalancer(*moves)
    else:
        headroom = headroom_of(rules, tiers)
        rebalancer = LiveRebalancer(*moves, headroom=headroom, per_request=rules.freeness_per_request)
    cluster.every(rules.rebalance_interval_s, rebalancer.tick)
    autoscaler = None
    if rules.autoscaler != "off":
        autoscaler = Autoscaler(replicas, AutoscalingRules(mended=rules.autoscaler == "mended"))
        cluster.every(autoscaler.rules.interval_s, autoscaler.tick)
    return ServingAssembly(cluster, dispatcher, replicas, rebalancer, autoscaler)


def _dispatcher(
    dispatch: str, replicas: list[ServingReplica], rules: Rules, tiers: int, stale: set[ServingReplica]
) -> Dispatcher:
    if dispatch == "round_robin":
        return RoundRobin(replicas)
    if dispatch == "least_outstanding":
        return LeastOutstanding(replicas, running=True)
    if dispatch == "infaas":
        return Infaas(replicas, tiers)
    if dispatch == "osdi":
        return OsdiLoad(replicas, priorities=True)
    if dispatch == "freeness":
        return Freest(replicas, headroom_of(rules, tiers), rules.freeness_per_request, stale)
    allowed = "round_robin, least_outstanding, infaas, osdi, freeness"
    raise UserError(f"dispatch is {dispatch!r}; allowed on the serving engine: {allowed}")

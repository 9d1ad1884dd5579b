"""The systems that the study compares, each put together from dispatcher, replicas, migration and scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from servestudy.engine.cluster import Cluster
from servestudy.engine.time_model import TimeModel
from servestudy.errors import UserError
from servestudy.tiers.autoscaling import Autoscaler, AutoscalingRules
from servestudy.tiers.dispatch import Dispatcher, Freest, Infaas, LeastOutstanding, OsdiLoad, RoundRobin
from servestudy.tiers.llumlet import HoldingLlumletReplica, LlumletReplica
from servestudy.tiers.migration import Rebalancer
from servestudy.tiers.orca import OrcaReplica
from servestudy.tiers.replica import ReplicaConfig, TierReplica
from servestudy.tiers.sarathi import SarathiReplica
from servestudy.tiers.settings import Rules, headroom_of, migration_rules
from servestudy.tiers.vllm import VllmReplica

DISPATCHERS: dict[str, Callable[[Sequence[TierReplica], Rules, int], Dispatcher]] = {
    "round_robin": lambda replicas, rules, tiers: RoundRobin(replicas),
    "least_outstanding": lambda replicas, rules, tiers: LeastOutstanding(replicas),
    "infaas": lambda replicas, rules, tiers: Infaas(replicas, tiers),
    "infaaspp": lambda replicas, rules, tiers: OsdiLoad(replicas),
    "osdi": lambda replicas, rules, tiers: OsdiLoad(replicas, priorities=True),
    "freeness": lambda replicas, rules, tiers: Freest(replicas, headroom_of(rules, tiers), rules.freeness_per_request),
}


@dataclass(frozen=True)
class System:
    """`dispatch` None: as the rules say. `sees_tiers` off: every request is treated as of tier 0.

    `blind`: its latencies depend on arrivals and lengths only, so that K and the mix are mere labels. `migrates`: it
    reads the rules of migration. `serving_only`: the study's own engine does not have it.
    """

    replica: type[TierReplica]
    dispatch: str | None
    meaning: str
    sees_tiers: bool = True
    blind: bool = False
    migrates: bool = False
    serving_only: bool = False


SYSTEMS = {
    "infaas_vllm": System(VllmReplica, "infaas", "INFaaS as the study reads it, vLLM: the baseline of all speed-ups"),
    "round_robin_vllm": System(VllmReplica, "round_robin", "round robin, vLLM", blind=True),
    "least_outstanding_vllm": System(VllmReplica, "least_outstanding", "fewest queued requests, vLLM", blind=True),
    "infaaspp_vllm": System(
        VllmReplica, "infaaspp", "dispatch load of the OSDI'24 artifact, no migration, vLLM", blind=True
    ),
    "round_robin_orca": System(OrcaReplica, "round_robin", "round robin, Orca", blind=True),
    "round_robin_sarathi": System(SarathiReplica, "round_robin", "round robin, Sarathi-Serve", blind=True),
    "llumnix24": System(
        LlumletReplica,
        "osdi",
        "OSDI'24 Llumnix: tier 0 is high priority, 1,600-token target",
        migrates=True,
        serving_only=True,
    ),
    "ours": System(LlumletReplica, None, "the study's multi-tier scheduler", migrates=True),
    "ours_one_tier": System(
        LlumletReplica,
        None,
        "the same on the same requests, all treated as one tier, without headroom",
        sees_tiers=False,
        blind=True,
        migrates=True,
    ),
}
BASELINE = "infaas_vllm"


def system(name: str) -> System:
    """The system of that name; raises UserError if there is none."""
    if name not in SYSTEMS:
        raise UserError(f"unknown system {name!r}; allowed: {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


@dataclass(frozen=True)
class Assembly:
    """A system ready to run."""

    cluster: Cluster
    dispatcher: Dispatcher
    replicas: list[TierReplica]
    rebalancer: Rebalancer | None
    autoscaler: Autoscaler | None


def assemble(name: str, rules: Rules, tiers: int, time_model: TimeModel) -> Assembly:
    """Build a system for K tiers. Rebalancing and autoscaling exist for ours only, with migration and two replicas.

    Raises UserError for an unknown system or rule.
    """
    chosen = system(name)
    if chosen.serving_only:
        raise UserError(f"system {name!r} runs on the serving engine only: add engine=serving")
    tiers = tiers if chosen.sees_tiers else 1
    is_ours = issubclass(chosen.replica, LlumletReplica)
    kind = HoldingLlumletReplica if is_ours and rules.decodes_hold_kv else chosen.replica
    config = ReplicaConfig(
        time_model,
        tiers=tiers,
        total_blocks=rules.total_blocks,
        max_num_seqs=rules.max_num_seqs,
        max_batch_tokens=rules.max_batch_tokens,
        max_sequence_tokens=rules.max_sequence_tokens,
        attention_clamp_seqs=rules.attention_clamp_seqs,
        batch_cap=rules.batch_cap,
        queue_order=rules.queue_order,
    )
    replicas = [kind(index, config) for index in range(rules.replicas)]
    dispatch = chosen.dispatch or rules.dispatch
    if dispatch not in DISPATCHERS:
        raise UserError(f"dispatch is {dispatch!r}; allowed: {', '.join(DISPATCHERS)}")
    dispatcher = DISPATCHERS[dispatch](replicas, rules, tiers)
    cluster = Cluster(replicas, dispatcher.choose)
    if not is_ours or rules.migration == "off" or rules.replicas < 2:
        return Assembly(cluster, dispatcher, replicas, None, None)
    rebalancer = Rebalancer(
        replicas,
        headroom_of(rules, tiers),
        migration_rules(rules),
        later=cluster.later,
        wake=cluster.wake,
        per_request=rules.freeness_per_request,
    )
    cluster.every(rebalancer.rules.interval_s, rebalancer.tick)
    autoscaler = None
    if rules.autoscaler != "off":
        autoscaler = Autoscaler(replicas, AutoscalingRules(mended=rules.autoscaler == "mended"))
        cluster.every(autoscaler.rules.interval_s, autoscaler.tick)
    return Assembly(cluster, dispatcher, replicas, rebalancer, autoscaler)

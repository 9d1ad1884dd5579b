"""Dispatchers: which replica an arriving request goes to. All but round robin take the lowest index among equals.

Sources: the published study's Llumnix and INFaaS dispatchers, the simulator's round robin and least outstanding, and
the OSDI'24 Llumnix artifact for INFaaS++.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from servestudy.tiers.freeness import freeness, osdi_load
from servestudy.tiers.replica import TierReplica
from servestudy.tiers.request import TierRequest


class Dispatcher(Protocol):
    def choose(self, request: TierRequest) -> TierReplica: ...


def open_replicas(replicas: Sequence[TierReplica]) -> Sequence[TierReplica]:
    """Those that do not drain; all if all do."""
    return [replica for replica in replicas if not replica.draining] or replicas


class RoundRobin:
    """In turn."""

    def __init__(self, replicas: Sequence[TierReplica]) -> None:
        self.replicas = replicas
        self.sent = 0

    def choose(self, request: TierRequest) -> TierReplica:
        candidates = open_replicas(self.replicas)
        self.sent += 1
        return candidates[(self.sent - 1) % len(candidates)]


class LeastOutstanding:
    """Fewest *queued* requests, as in the study's simulator: running ones do not count, unless `running` is set."""

    def __init__(self, replicas: Sequence[TierReplica], running: bool = False) -> None:
        self.replicas = replicas
        self.running = running

    def choose(self, request: TierRequest) -> TierReplica:
        candidates = open_replicas(self.replicas)
        if self.running:
            return min(candidates, key=lambda replica: replica.outstanding())
        return min(candidates, key=lambda replica: replica.waiting_requests())


class Freest:
    """Highest freeness, headroom of all tiers included, whatever the request's own tier.

    `stale`: the replicas whose freeness has changed since the last choice, if they say so; None: any may have.
    """

    def __init__(
        self,
        replicas: Sequence[TierReplica],
        headroom: list[float],
        per_request: bool = True,
        stale: set[TierReplica] | None = None,
    ) -> None:
        self.replicas = replicas
        self.headroom = headroom
        self.per_request = per_request
        self._stale = stale
        self._free = [0.0] * len(replicas)

    def choose(self, request: TierRequest) -> TierReplica:
        free = self._free
        for replica in self.replicas if self._stale is None else self._stale:
            free[replica.index] = -math.inf if replica.draining else freeness(replica, self.headroom, self.per_request)
        if self._stale is not None:
            self._stale.clear()
        most = max(free)
        if most == -math.inf:  # all drain
            return max(self.replicas, key=lambda replica: freeness(replica, self.headroom, self.per_request))
        return self.replicas[free.index(most)]


class OsdiLoad:
    """Lowest dispatch load of the OSDI'24 artifact; without priorities: INFaaS++."""

    def __init__(self, replicas: Sequence[TierReplica], priorities: bool = False) -> None:
        self.replicas = replicas
        self.priorities = priorities

    def choose(self, request: TierRequest) -> TierReplica:
        high = request.tier == 0
        return min(open_replicas(self.replicas), key=lambda replica: osdi_load(replica, high, self.priorities))


ACTIVE, INTERFERED, OVERLOADED = "active", "interfered", "overloaded"


INFAAS_TARGET_MS = 1000.0
INFAAS_NEW_SHARE = 0.6  # of the newest latency in the mean
INFAAS_LATENCY_FACTOR = {OVERLOADED: 1.3, INTERFERED: 1.15}
INFAAS_DEPTH = {OVERLOADED: 2, INTERFERED: 1}
INFAAS_COOLDOWN_CALLS = {ACTIVE: 0, OVERLOADED: 3, INTERFERED: 2}
INFAAS_PENALTY = {ACTIVE: 0.0, OVERLOADED: 1.0, INTERFERED: 0.5}


@dataclass
class _Health:
    state: str = ACTIVE
    mean_ms: float | None = None  # exponentially weighted, of completion - first scheduling
    cooldown_calls: int = 0
    noticed: int = 0  # completions


class Infaas:
    """The study's reading of INFaaS: outstanding requests plus service time plus a penalty, on healthy replicas only.

    A replica's health follows the latency of its completions, queueing excluded. Tiers scale the cost of all replicas
    alike. Nothing here makes a replica inactive, so that state is left out.

    `tiers_mattered`: whether a choice was ever made among replicas with a penalty. Until then all candidates cost
    scale x (outstanding + service time), whose order does not depend on the scale, so tiers are mere labels.
    """

    def __init__(self, replicas: Sequence[TierReplica], tiers: int) -> None:
        self.replicas = replicas
        self.tiers = tiers
        self.tiers_mattered = False
        self.health = [_Health() for _ in replicas]

    def choose(self, request: TierRequest) -> TierReplica:
        for replica, health in zip(self.replicas, self.health, strict=True):
            self._recover(replica, health)
            self._notice(replica, health)
        active = [replica for replica in self.replicas if self.health[replica.index].state == ACTIVE]
        self.tiers_mattered |= not active
        return min(active or self.replicas, key=lambda replica: self._cost(replica, request))

    def _cost(self, replica: TierReplica, request: TierRequest) -> float:
        scale = max(0.5, 1 - 0.1 * (self.tiers - 1 - request.tier))
        service_ms = 1000 * replica.next_iteration_alone_s(request)
        return scale * replica.outstanding() + scale * service_ms + INFAAS_PENALTY[self.health[replica.index].state]

    def _over(self, health: _Health, state: str) -> bool:
        return health.mean_ms is not None and health.mean_ms > INFAAS_LATENCY_FACTOR[state] * INFAAS_TARGET_MS

    def _recover(self, replica: TierReplica, health: _Health) -> None:
        """Count a cooldown down; at its end a replica is active again if its latency or its depth allows."""
        if health.state == ACTIVE:
            return
        health.cooldown_calls = max(0, health.cooldown_calls - 1)
        calm = not self._over(health, health.state) or replica.outstanding() <= INFAAS_DEPTH[health.state]
        if not health.cooldown_calls and calm:
            health.state = ACTIVE

    def _notice(self, replica: TierReplica, health: _Health) -> None:
        """Update the health by each completion since the last call."""
        for served_s in replica.served_s(health.noticed):
            latency_ms = 1000 * served_s
            old_ms = latency_ms if health.mean_ms is None else health.mean_ms
            health.mean_ms = INFAAS_NEW_SHARE * latency_ms + (1 - INFAAS_NEW_SHARE) * old_ms
            depth = replica.outstanding()
            if self._over(health, OVERLOADED) and depth > INFAAS_DEPTH[OVERLOADED]:
                health.state = OVERLOADED
            elif self._over(health, INTERFERED) and depth <= INFAAS_DEPTH[INTERFERED]:
                health.state = INTERFERED
            else:
                health.state = ACTIVE
            health.cooldown_calls = INFAAS_COOLDOWN_CALLS[health.state]
            health.noticed += 1

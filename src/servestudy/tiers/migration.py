"""Rebalancing by live migration, by the rules of the published study: who moves, when, from where and to where.

As published a move costs nothing and wakes nobody; `MigrationRules` holds a switch for each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from servestudy.errors import UserError
from servestudy.tiers.freeness import freeness
from servestudy.tiers.llumlet import LlumletReplica
from servestudy.tiers.request import TierRequest

Replica = TypeVar("Replica")  # of either engine
TRIGGERS = ("gap", "negative")
PAIR_MARGIN = 0.1  # sources and destinations lie this near to the least and the most free replica


@dataclass(frozen=True)
class MigrationRules:
    """Defaults: as published. Bytes per second 0: a move takes no time."""

    interval_s: float = 0.05
    trigger: str = (
        "gap"  # gap: most minus least free >= least_gap (the code); negative: least free < 0 (its description)
    )
    least_gap: float = 0.3
    float_skip: bool = True  # a tick acts only if now - last >= interval in floating point, which every third one fails
    stage_blocks: int = 1
    wake_destination: bool = False
    bytes_per_s: float = 0.0
    downtime_s: float = 0.0  # of a running request at its last stage

    def __post_init__(self) -> None:
        if self.trigger not in TRIGGERS:
            raise UserError(f"unknown migration trigger {self.trigger!r}; allowed: {', '.join(TRIGGERS)}")


def is_due(free: list[float], rules: MigrationRules) -> bool:
    """Does the freeness of all replicas ask for moves?"""
    return max(free) - min(free) >= rules.least_gap if rules.trigger == "gap" else min(free) < 0


def pairs(replicas: Sequence[Replica], free: list[float]) -> list[tuple[Replica, Replica]]:
    """Sources and destinations, the least free with the freest; a replica may be paired with itself."""
    rising = sorted(replicas, key=lambda replica: free[replica.index])
    least, most = min(free), max(free)
    sources = [
        replica
        for replica in rising
        if (replica.has_work() if replica.draining else free[replica.index] <= least + PAIR_MARGIN)
    ]
    destinations = [
        replica
        for replica in sorted(replicas, key=lambda replica: -free[replica.index])
        if not replica.draining and free[replica.index] >= most - PAIR_MARGIN
    ]
    return list(zip(sources, destinations, strict=False))


class ByFreeness:
    """When a rebalancer acts, and between which replicas, on either engine; a subclass moves one request at a time."""

    replicas: Sequence[Replica]
    rules: MigrationRules
    headroom: list[float]
    per_request: bool
    last_s = 0.0

    def tick(self, now_s: float) -> None:
        """Act once if the trigger says so."""
        if self.rules.float_skip and now_s - self.last_s < self.rules.interval_s:
            return
        free = [freeness(replica, self.headroom, self.per_request) for replica in self.replicas]
        if not is_due(free, self.rules):
            return
        self.last_s = now_s
        for source, there in pairs(self.replicas, free):
            while source is not there and self._move_one(source, there) and source.draining:
                pass

    def _move_one(self, source: Replica, there: Replica) -> bool:
        """True if a request moved or began to."""
        raise NotImplementedError


class StagedMove:
    """A running request on its way: it keeps running here, one stage an iteration, with blocks reserved there."""

    def __init__(self, rebalancer: Rebalancer, request: TierRequest, source: LlumletReplica, there: LlumletReplica):
        self.rebalancer, self.request, self.source, self.there = rebalancer, request, source, there
        self.blocks = request.blocks
        self.stages_left = max(1, -(-self.blocks // rebalancer.rules.stage_blocks))
        there.reserved_blocks += self.blocks
        request.migration = self
        rebalancer.started += 1

    def abort(self) -> None:
        """The request stays where it is."""
        self._end()
        self.rebalancer.aborted += 1

    def stage_done(self) -> bool:
        """Count an iteration of the request; True if it has left, so that the source must not queue it again."""
        self.stages_left -= 1
        if self.stages_left:
            return False
        blocks = max(self.blocks, self.request.blocks)  # a decode that holds its KV may have grown on the way
        if blocks > self.there.total_blocks - self.there.used_blocks:
            self.abort()
            return False
        self._end()
        self.source.leave(self.request)
        self.there.take(self.request, blocks)
        self.rebalancer.hand_over(self.request, self.there)
        return True

    def _end(self) -> None:
        self.there.reserved_blocks -= self.blocks
        self.request.migration = None


class Rebalancer(ByFreeness):
    """Moves requests from the least to the most free replicas.

    `later(delay_s, act)` and `wake(replica)` are the cluster's. Counts: started and aborted staged moves, moved
    requests (queued and running ones), and KV tokens moved.
    """

    def __init__(
        self,
        replicas: Sequence[LlumletReplica],
        headroom: list[float],
        rules: MigrationRules,
        later: Callable[[float, Callable[[], None]], None],
        wake: Callable[[LlumletReplica], None],
        per_request: bool = True,
    ) -> None:
        self.replicas, self.headroom, self.rules = replicas, headroom, rules
        self.per_request = per_request
        self._later, self._wake = later, wake
        self.in_transit: dict[TierRequest, LlumletReplica] = {}
        self.started = self.aborted = self.moved_queued = self.moved_running = self.moved_kv_tokens = 0

    def _move_one(self, source: LlumletReplica, there: LlumletReplica) -> bool:
        """Move the request of the lowest tier with the fewest blocks; True if one moved or began to."""
        free = there.total_blocks - there.used_blocks - there.reserved_blocks
        if free <= 0:
            return False
        running = [request for request in source.running() if request.blocks <= free]
        best = min(running, key=lambda request: (-request.tier, request.blocks), default=None)
        if best is None or not source.draining:
            queued = self._queued(source, free, best)
            if queued is not None:
                return self._move_queued(queued, source, there)
        if best is None or best.migration is not None or best.blocks > there.total_blocks - there.used_blocks:
            return False
        StagedMove(self, best, source, there)
        return True

    @staticmethod
    def _queued(source: LlumletReplica, free: int, running: TierRequest | None) -> TierRequest | None:
        """The queued request that goes before `running`, if there is one; running ones win ties."""
        lowest = 0 if running is None else running.tier
        for tier in range(len(source.requests_of_tier) - 1, lowest - 1, -1):
            least = running.blocks if running is not None and running.tier == tier else free + 1
            best = None
            if least and source.requests_of_tier[tier]:
                for request in source.queued_of_tier(tier):
                    blocks = source.next_blocks(request)
                    if blocks < least:
                        best, least = request, blocks
                        if not least:
                            break
            if best is not None:
                return best
        return None

    def _move_queued(self, request: TierRequest, source: LlumletReplica, there: LlumletReplica) -> bool:
        """At once, also a decode between two iterations, whose KV takes time to copy only if bandwidth is limited."""
        if request.migration is not None:
            return False
        source.take_out(request)
        self.moved_queued += 1
        seconds = request.processed * self._kv_bytes() / self.rules.bytes_per_s if self.rules.bytes_per_s else 0.0
        self._send(request, there, there.enqueue, seconds)
        return True

    def hand_over(self, request: TierRequest, there: LlumletReplica) -> None:
        """The last stage of a running request, whose blocks there are taken."""
        self.moved_running += 1
        self._send(request, there, there.bring_in, self.rules.downtime_s)

    def _kv_bytes(self) -> int:
        return self.replicas[0].config.time_model.kv_token_bytes

    def _send(
        self, request: TierRequest, there: LlumletReplica, join: Callable[[TierRequest], None], seconds: float
    ) -> None:
        request.migrations += 1
        self.moved_kv_tokens += request.processed

        self.in_transit[request] = there

        def arrive() -> None:
            del self.in_transit[request]
            join(request)
            if self.rules.wake_destination:
                self._wake(there)

        if seconds:
            self._later(seconds, arrive)
        else:
            arrive()

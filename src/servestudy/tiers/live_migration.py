"""Live migration on the serving engine: a move takes time, pauses the request, and may be given up.

A waiting request has no KV and moves at once. The KV of a decoding one is copied while it goes on; at the end of the
iteration in which the copy ends it stops, if the destination has a slot and blocks for it, and after a pause it goes on
there. It stays where it is if it has completed or was preempted by then, or if there is no room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servestudy.engine.outcome import Progress
from servestudy.tiers.freeness import osdi_migration_load
from servestudy.tiers.migration import ByFreeness, MigrationRules
from servestudy.tiers.serving_replica import ServingReplica

OSDI_THRESHOLD = 3.0
"""Freeness below which an instance gives and above which it takes; 10 for the longest lengths of OSDI'24."""


class LiveMoves:
    """Moves of single requests; who moves is for subclasses to say, in `tick`.

    Counts: moves by request id, started and aborted moves, moved queued and running requests, KV tokens moved, seconds
    of pauses. `in_transit`: paused ones by id.
    """

    def __init__(
        self,
        replicas: Sequence[ServingReplica],
        rules: MigrationRules,
        later: Callable[[float, Callable[[], None]], None],
        wake: Callable[[ServingReplica], None],
        kv_token_bytes: int,
    ) -> None:
        self.replicas, self.rules = replicas, rules
        self._later, self._wake, self._kv_token_bytes = later, wake, kv_token_bytes
        self.moves_of: dict[int, int] = {}
        self.in_transit: dict[int, Progress] = {}
        self.started = self.aborted = self.moved_queued = self.moved_running = self.moved_kv_tokens = 0
        self.pause_s = 0.0

    def tick(self, now_s: float) -> None:
        raise NotImplementedError

    def move_waiting(self, request_id: int, source: ServingReplica, there: ServingReplica) -> None:
        self.moved_queued += 1
        p = source.take_waiting(request_id)
        self._wake(source)  # those behind it may go on
        self._arrive(p, there)

    def start_move(self, request_id: int, kv_tokens: int, source: ServingReplica, there: ServingReplica) -> None:
        """Begin to copy the KV of a decoding request."""
        blocks = -(-kv_tokens // source.block_tokens)
        there.reserved_blocks += blocks
        source.moving.add(request_id)
        self.started += 1

        def leave() -> None:
            source.moving.remove(request_id)
            there.reserved_blocks -= blocks
            engine = source.engine
            if not engine.is_decoding(request_id) or not there.engine.has_room(engine.batch.kv_tokens(request_id)):
                self.aborted += 1
                return
            p = source.take_decoding(request_id)
            self.moved_running += 1
            self.moved_kv_tokens += p.kv_tokens
            self._pause(p, there)

        def copied() -> None:
            source.engine.departures[request_id] = leave
            self._wake(source)

        seconds = kv_tokens * self._kv_token_bytes / self.rules.bytes_per_s if self.rules.bytes_per_s else 0.0
        self._later(seconds, copied)

    def _pause(self, p: Progress, there: ServingReplica) -> None:
        """The last stage; the blocks are not held for it, so that they may be gone when it arrives."""
        self.in_transit[p.request_id] = p
        self.pause_s += self.rules.downtime_s

        def arrive() -> None:
            del self.in_transit[p.request_id]
            self._arrive(p, there)

        self._later(self.rules.downtime_s, arrive)

    def _arrive(self, p: Progress, there: ServingReplica) -> None:
        self.moves_of[p.request_id] = self.moves_of.get(p.request_id, 0) + 1
        there.bring_in(p)
        if self.rules.wake_destination:
            self._wake(there)


class LiveRebalancer(ByFreeness, LiveMoves):
    """The published study's choice of sources, destinations and requests: lowest tier first, then fewest blocks."""

    def __init__(self, *args, headroom: list[float], per_request: bool = True) -> None:
        super().__init__(*args)
        self.headroom, self.per_request = headroom, per_request

    def _move_one(self, source: ServingReplica, there: ServingReplica) -> bool:
        free_tokens = (there.total_blocks - there.used_blocks - there.reserved_blocks) * there.block_tokens
        if free_tokens <= 0:
            return False

        def best(candidates) -> tuple[int, int, int] | None:
            fitting = (found for found in candidates if found[2] <= free_tokens)
            return min(fitting, key=lambda found: (-found[1], -(-found[2] // there.block_tokens)), default=None)

        running = best(found for found in source.decoding() if not (source.draining and found[0] in source.moving))
        waiting = None if running and source.draining else best(source.waiting())
        if waiting and (not running or self._goes_first(waiting, running, there.block_tokens)):
            self.move_waiting(waiting[0], source, there)
            return True
        if not running or running[0] in source.moving:
            return False
        self.start_move(running[0], running[2], source, there)
        return True

    @staticmethod
    def _goes_first(waiting: tuple[int, int, int], running: tuple[int, int, int], block_tokens: int) -> bool:
        """Lower tier, or the same with fewer blocks; running ones win ties."""
        order = [(-tier, -(-tokens // block_tokens)) for _, tier, tokens in (waiting, running)]
        return order[0] < order[1]


class OsdiRebalancer(LiveMoves):
    """OSDI'24 Llumnix: from instances of little freeness or with preempted requests to free ones, one move at a time.

    The last admitted request of normal priority that decodes goes. Polled, as in Llumnix' first release.
    """

    def tick(self, now_s: float) -> None:
        free = {replica: -osdi_migration_load(replica) for replica in self.replicas}
        killed = {replica: replica.has_preempted() for replica in self.replicas}
        idle = [replica for replica in self.replicas if not replica.moving and not replica.reserved_blocks]
        sources = [r for r in idle if r.draining or free[r] < OSDI_THRESHOLD or killed[r]]
        there = [r for r in idle if not r.draining and free[r] > OSDI_THRESHOLD and not killed[r]]
        sources.sort(key=free.get)
        there.sort(key=free.get, reverse=True)
        for source, destination in zip(sources, there, strict=False):
            normal = [found for found in source.decoding() if found[1] > 0]
            if source is not destination and normal:
                request_id, _, kv_tokens = normal[-1]
                self.start_move(request_id, kv_tokens, source, destination)
            elif source.draining and (waiting := next(source.waiting(), None)):
                self.move_waiting(waiting[0], source, destination)

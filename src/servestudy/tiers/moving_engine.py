"""The serving engine's replica, from which running requests can leave with their KV and into which they can come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from servestudy.engine.iteration import Replica
from servestudy.engine.outcome import Progress
from servestudy.engine.replica_config import ReplicaConfig
from servestudy.schedulers.protocol import Scheduler


class MovingReplica(Replica):
    """Requests come and go between two iterations only, whatever jump is planned.

    Attributes
    ----------
    departures: by id of a running request, what to call at the end of the iteration in flight.
    coming: requests that join at the end of the iteration in flight; those without `prefill_left` bring their KV.
    busy_s: seconds of all iterations that have ended.
    """

    def __init__(self, scheduler: Scheduler, config: ReplicaConfig) -> None:
        super().__init__(scheduler, config)
        self.departures: dict[int, Callable[[], None]] = {}
        self.coming: list[Progress] = []
        self.busy_s = self._begun_s = 0.0

    @property
    def in_last_iteration(self) -> bool:
        """Nothing can change what it does before the time that it has asked for."""
        return self._steps == 1

    @property
    def not_received(self) -> int:
        """Requests that have come during the iteration in flight."""
        return len(self._arrivals) + len(self.coming)

    @property
    def received(self) -> int:
        """Requests that have joined, less those that have left for another replica."""
        return self._injected

    def to_receive(self) -> Iterator[Progress]:
        """Those that have arrived here during the iteration in flight."""
        return iter(self._arrivals)

    def first_not_received(self) -> int:
        """Tokens to prefill of the first of them; 0 if there is none."""
        first = self._arrivals[0] if self._arrivals else self.coming[0] if self.coming else None
        return first.prefill_left if first else 0

    def tokens_not_received(self) -> int:
        """Tokens to prefill of all of them."""
        return sum(p.prefill_left for p in self._arrivals) + sum(p.prefill_left for p in self.coming)

    def advance(self, now_s: float) -> float:
        if self.departures or self.coming:
            self._move(now_s)
        return super().advance(now_s)

    def is_decoding(self, request_id: int) -> bool:
        p = self.batch.progress.get(request_id)
        return p is not None and p.due is not None

    def has_room(self, kv_tokens: int) -> bool:
        """Are a slot and blocks for a request with its KV free, the watermark left alone?"""
        cache = self.batch.cache
        blocks = -(-kv_tokens // cache.block_tokens)
        slots = self.config.limits.max_num_seqs - len(self.batch.running)
        return slots > 0 and blocks <= cache.free_blocks - cache.watermark_blocks

    def take_waiting(self, request_id: int) -> Progress:
        """Remove a request of the queue, at any time."""
        batch = self.batch
        request = batch.queue.pop(request_id)
        if request in batch.joined:
            batch.joined.remove(request)
        return self._forget(request_id)

    def take_decoding(self, request_id: int) -> Progress:
        """Remove a decoding request with its KV; only between two iterations."""
        batch = self.batch
        batch.preempt(request_id)
        p = batch.progress[request_id]
        p.preemptions -= 1
        batch.preemptions -= 1
        p.kv_tokens = p.request.prompt_tokens + p.made - 1  # of its newest token there is none yet
        p.prefill_left = 0
        return self.take_waiting(request_id)

    def _forget(self, request_id: int) -> Progress:
        batch = self.batch
        batch.finished.append(request_id)
        batch.event = True
        self._injected -= 1
        return batch.progress.pop(request_id)

    def _move(self, now_s: float) -> None:
        """Come to the end of the iteration in flight, if it is due, and let requests go and come."""
        if self._steps:
            if now_s < self.time_s:
                self._cut_jump(now_s)
                if now_s < self.time_s:
                    return
            self._end_iterations()
        elif self.time_s < now_s:
            self.time_s = now_s
            self.batch.decodes.changed = True
        departures, self.departures = self.departures, {}
        for leave in departures.values():
            leave()
        coming, self.coming = self.coming, []
        for p in coming:
            self._join(p)

    def _join(self, p: Progress) -> None:
        """To the queue; with its KV straight into the batch, or, if there is no room for it, to be recomputed."""
        batch = self.batch
        self._injected += 1
        has_kv = not p.prefill_left
        if has_kv and not self.has_room(p.kv_tokens):
            p.kv_tokens = p.prefill_left = p.request.prompt_tokens + p.made
            p.preemptions += 1
            batch.preemptions += 1
            has_kv = False
        batch.join(p)
        if has_kv:
            batch.admit(p.request_id, self.time_s)
            batch.swapped_tokens -= p.kv_tokens  # it came over the network, which is paid for elsewhere
            batch.joined.remove(p.request)

    def _begin_one(self, parts: Sequence[tuple[Progress, int]], decodes: int) -> None:
        self._begun_s = self.time_s
        super()._begin_one(parts, decodes)

    def _begin_jump(self, decodes: int) -> None:
        self._begun_s = self.time_s
        super()._begin_jump(decodes)

    def _end_iterations(self) -> None:
        self.busy_s += self.time_s - self._begun_s
        super()._end_iterations()

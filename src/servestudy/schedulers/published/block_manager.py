"""KV blocks as the four `*_faithful` schedulers count them, apart from the engine's own token count."""

from collections import deque
from collections.abc import Sequence

from servestudy.schedulers.protocol import UNTIL_EVENT, ReplicaLimits

BLOCK_TOKENS = 16
WATERMARK_SHARE = 0.01


def blocks_for(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


class BlockManager:
    """Blocks held by each request. A request either *grows*, by one token with each `tick`, or keeps its size.

    All growing requests take a token at the same ticks. So the blocks that a tick takes depend only on how many
    growing requests are in each phase modulo the block size, and a tick, or many, costs no loop over requests.
    """

    def __init__(self, limits: ReplicaLimits):
        self.total = limits.max_kv_tokens // BLOCK_TOKENS
        self.watermark = int(WATERMARK_SHARE * self.total)
        self.free = self.total
        self._ticks = 0
        self._fixed: dict[int, int] = {}  # id -> tokens
        self._growing: dict[int, int] = {}  # id -> tokens less ticks so far
        self._phase_count = [0] * BLOCK_TOKENS

    @property
    def growing_count(self) -> int:
        return len(self._growing)

    def __len__(self) -> int:
        return len(self._growing) + len(self._fixed)

    def can_allocate(self, tokens: int) -> bool:
        return self.free - blocks_for(tokens) >= self.watermark

    def allocate(self, request_id: int, tokens: int, growing: bool) -> None:
        self.free -= blocks_for(tokens)
        self._fixed[request_id] = tokens
        if growing:
            self.grow(request_id)

    def grow(self, request_id: int) -> None:
        """From the next tick on the request grows."""
        offset = self._fixed.pop(request_id) - self._ticks
        self._growing[request_id] = offset
        self._phase_count[offset % BLOCK_TOKENS] += 1

    def keep_size(self, request_id: int) -> None:
        """From the next tick on the request no longer grows."""
        offset = self._growing.pop(request_id)
        self._fixed[request_id] = offset + self._ticks
        self._phase_count[offset % BLOCK_TOKENS] -= 1

    def release(self, request_id: int) -> None:
        """Return all blocks of a request; no effect if it holds none."""
        if request_id in self._growing:
            self.keep_size(request_id)
        self.free += blocks_for(self._fixed.pop(request_id, 0))

    def blocks_of_next_tick(self) -> int:
        """Blocks that the growing requests need for one more token each."""
        return self._phase_count[-self._ticks % BLOCK_TOKENS]

    def tick_fits(self) -> bool:
        """Are there blocks enough for the next tick?"""
        return self.blocks_of_next_tick() <= self.free

    def tick(self, times: int = 1) -> None:
        """Every growing request takes one token, `times` over. There must be blocks enough."""
        if times >= BLOCK_TOKENS:
            self.free -= times // BLOCK_TOKENS * len(self._growing)
            self._ticks += times // BLOCK_TOKENS * BLOCK_TOKENS
        for _ in range(times % BLOCK_TOKENS):
            self.free -= self._phase_count[-self._ticks % BLOCK_TOKENS]
            self._ticks += 1

    def safe_ticks(self) -> int:
        """A number of ticks for which the free blocks certainly suffice."""
        if not self._growing:
            return UNTIL_EVENT
        return self.free // len(self._growing) * BLOCK_TOKENS

    def victims_of_next_tick(self, in_order: Sequence[int], serve: int | None = None) -> list[int]:
        """Who must be evicted so that the rest of `in_order` can take one more token.

        Go through the first `serve` ids (default: all) from the front. While one cannot get its block, evict the
        last of those not yet served, or itself if none is left. Fixed-size ids need no block but can be evicted.
        """
        free = self.free
        unserved = deque(in_order)
        victims: list[int] = []
        for _ in range(len(in_order) if serve is None else serve):
            if not unserved:
                break
            request_id = unserved.popleft()
            needs = self._needs_block(request_id)
            while needs and not free and unserved:
                victim = unserved.pop()
                free += self._held(victim)
                victims.append(victim)
            if needs and not free:
                free += self._held(request_id)
                victims.append(request_id)
            elif needs:
                free -= 1
        return victims

    def _held(self, request_id: int) -> int:
        if request_id in self._growing:
            return blocks_for(self._growing[request_id] + self._ticks)
        return blocks_for(self._fixed[request_id])

    def _needs_block(self, request_id: int) -> bool:
        return request_id in self._growing and (self._growing[request_id] + self._ticks) % BLOCK_TOKENS == 0

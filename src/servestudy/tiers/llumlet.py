"""The contender's replica scheduler: one queue by tier, prefills and decodes mixed, whole prompts.

As published, the KV of a batch is freed when its iteration ends and a decode needs no block, so that memory limits only
the prompts of one iteration; and the cap on sequences is not read. `HoldingLlumletReplica` is the same scheduler on
paged KV that is held until completion.
"""

from collections import deque
from collections.abc import Iterator
from itertools import chain

from servestudy.errors import UserError
from servestudy.tiers.replica import ReplicaConfig, TierReplica
from servestudy.tiers.request import TierRequest

QUEUE_ORDERS = ("tier", "fifo", "decodes_first")


class LlumletReplica(TierReplica):
    """Every iteration walks the queue by (tier, order of joining) and stops at the first request that does not fit.

    An unfinished request joins the queue anew after each iteration, behind the prefills of its tier that wait there.
    """

    def __init__(self, index: int, config: ReplicaConfig) -> None:
        super().__init__(index, config)
        if config.queue_order not in QUEUE_ORDERS:
            raise UserError(f"unknown queue order {config.queue_order!r}; allowed: {', '.join(QUEUE_ORDERS)}")
        self.levels: list[deque[TierRequest]] = [deque() for _ in range(2 * config.tiers)]
        self.arrived: dict[TierRequest, None] = {}  # migrated here as running, and not yet in a batch
        self.joins = 0

    def _level_of(self, request: TierRequest) -> int:
        order = self.config.queue_order
        if order == "tier":
            return request.tier
        return 0 if order == "fifo" else 2 * request.tier + (not request.prefilled)

    def _join(self, request: TierRequest) -> None:
        self.joins += 1
        request.joined = self.joins
        self.levels[self._level_of(request)].append(request)

    # What rules see

    def head_of_line_blocks(self) -> int:
        for level in self.levels:
            if level:
                return self.next_blocks(level[0])
        return 0

    def next_blocks(self, request: TierRequest) -> int:
        """Blocks that a queued request needs for its next step."""
        return 0 if request.prefilled else max(1, self.blocks_of(request.prefill_tokens))

    def waiting_blocks(self) -> float:
        waiting = (request.prefill_tokens for level in self.levels for request in level if not request.prefilled)
        return sum(waiting) / self.block_tokens

    def waiting_requests(self) -> int:
        return sum(map(len, self.levels))

    def running_requests(self) -> int:
        return len(self.batch) + len(self.arrived)

    def outstanding(self) -> int:
        return self.waiting_requests() + self.batch_size()

    def has_work(self) -> bool:
        return any(self.requests_of_tier)

    # What migration does

    def running(self) -> Iterator[TierRequest]:
        """Requests with an entry in the block table."""
        return chain(self.batch, self.arrived)

    def queued_of_tier(self, tier: int) -> Iterator[TierRequest]:
        """Queued requests of a tier, decodes between two iterations included, in the order of the queue."""
        order = self.config.queue_order
        if order == "tier":
            return iter(self.levels[tier])
        levels = self.levels[:1] if order == "fifo" else self.levels[2 * tier : 2 * tier + 2]
        return (request for level in levels for request in level if request.tier == tier)

    def take_out(self, request: TierRequest) -> None:
        """Remove a queued request that moves to another replica; its blocks are freed here."""
        self.levels[self._level_of(request)].remove(request)
        self.leave(request)

    def leave(self, request: TierRequest) -> None:
        """Forget a request that is in no queue here any more."""
        self._release(request)
        self.arrived.pop(request, None)
        self.requests_of_tier[request.tier] -= 1

    def bring_in(self, request: TierRequest) -> None:
        """Let a running request of another replica join the queue; its blocks here are taken."""
        self.enqueue(request)
        self.arrived[request] = None

    def enqueue(self, request: TierRequest) -> None:
        self.requests_of_tier[request.tier] += 1
        self._join(request)

    # Batches

    def _compose(self) -> None:
        cap = self.config.max_num_seqs if self.config.batch_cap else None
        free = self.total_blocks - self.used_blocks
        for level in self.levels:
            while level and len(self.batch) != cap:
                request = level[0]
                if request.prefilled:
                    self._add(request, 1)
                else:
                    blocks = self.next_blocks(request)
                    if blocks > free:
                        return self._settle()
                    free -= blocks
                    self.take(request, blocks)
                    self._add(request, request.prefill_tokens)
                level.popleft()
        return self._settle()

    def _settle(self) -> None:
        if self.arrived:
            for request in self.batch:
                self.arrived.pop(request, None)

    def _after_iteration(self, request: TierRequest) -> None:
        if request.blocks:
            self._release(request)
        if request.migration is None or not request.migration.stage_done():
            self._join(request)


class HoldingLlumletReplica(LlumletReplica):
    """The same order with paged KV held until completion, so that a decode can be restarted as in vLLM.

    A prompt that does not fit stops further prompts but not the decodes, which would otherwise hold the blocks that it
    waits for. Without a free block the last decode in the order (tier, joining) is restarted.
    """

    def _after_iteration(self, request: TierRequest) -> None:
        if request.migration is None or not request.migration.stage_done():
            self.joins += 1
            request.joined = self.joins
            self.paused.append(request)

    def _compose(self) -> None:
        cap = self.config.max_num_seqs if self.config.batch_cap else None
        decodes = deque(sorted(self.paused, key=self._order))
        self.paused = []
        prompts_fit = True
        while len(self.batch) != cap:
            prompt = next((level[0] for level in self.levels if level), None) if prompts_fit else None
            if decodes and (prompt is None or self._order(decodes[0]) < self._order(prompt)):
                request = decodes.popleft()
                if self._grown(request, decodes):
                    self._add(request, 1)
            elif prompt is None:
                break
            elif self.next_blocks(prompt) > self.total_blocks - self.used_blocks:
                prompts_fit = False
            else:
                self.levels[self._level_of(prompt)].popleft()
                self.take(prompt, self.next_blocks(prompt))
                self._add(prompt, prompt.prefill_tokens)
        self.paused = list(decodes)
        self._settle()

    def _order(self, request: TierRequest) -> tuple[int, int]:
        return self._level_of(request), request.joined

    def _restart(self, request: TierRequest) -> None:
        """As in vLLM, to the front of its part of the queue; a move that was under way is given up."""
        if request.migration is not None:
            request.migration.abort()
        self._release(request)
        request.restart()
        request.joined = -1
        self.levels[self._level_of(request)].appendleft(request)

    def running_requests(self) -> int:
        return len(self.batch) + len(self.paused)

    def running(self) -> Iterator[TierRequest]:
        """Requests that hold blocks."""
        return chain(self.batch, self.paused)

    def batch_size(self) -> int:
        return len(self.batch)

    def leave(self, request: TierRequest) -> None:
        if request in self.paused:
            self.paused.remove(request)
        super().leave(request)

    def bring_in(self, request: TierRequest) -> None:
        self.requests_of_tier[request.tier] += 1
        self.joins += 1
        request.joined = self.joins
        self.paused.append(request)

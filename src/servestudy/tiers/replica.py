"""One replica as the study's simulator has it: one batch in flight, whole iterations, times from the time model.

Subclasses compose batches: `vllm.py`, `orca.py`, `sarathi.py`, `llumlet.py`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from servestudy.engine.time_model import TimeModel
from servestudy.errors import UserError
from servestudy.tiers.request import TierRequest


@dataclass(frozen=True)
class ReplicaConfig:
    """Limits and rules of one replica. Defaults: the study's latency sweep."""

    time_model: TimeModel
    tiers: int = 1
    total_blocks: int = 128
    block_tokens: int = 16
    max_num_seqs: int = 64
    max_batch_tokens: int = 2048
    watermark_share: float = 0.01
    chunk_tokens: int = 512  # Sarathi
    max_sequence_tokens: int = 4096  # Orca reserves this much for each request
    attention_clamp_seqs: int | None = 32
    """Decode attention of a larger batch is priced as of this many sequences: the study's out-of-table rule."""
    batch_cap: bool = True  # llumlet as published: False
    queue_order: str = "tier"  # llumlet: tier | fifo | decodes_first


class TierReplica:
    """A replica that a cluster drives: `enqueue`, then `advance` at once if not `busy`, and when a batch ends."""

    def __init__(self, index: int, config: ReplicaConfig) -> None:
        self.index = index
        self.config = config
        self.total_blocks = config.total_blocks
        self.block_tokens = config.block_tokens
        self.watermark_blocks = int(config.watermark_share * config.total_blocks)
        self.draining = False
        self.used_blocks = 0
        self.reserved_blocks = 0
        self.requests_of_tier = [0] * config.tiers
        self.queue: deque[TierRequest] = deque()
        self.waiting_tokens = 0  # prompt tokens in the queue
        self.paused: list[TierRequest] = []  # running requests that are not in the batch in flight
        self.batch: list[TierRequest] = []
        self.new_tokens: list[int] = []
        self.duration_s = 0.0
        self.completed: list[TierRequest] = []
        self.busy_s = 0.0

    # What rules see

    @property
    def busy(self) -> bool:
        """A batch is in flight, which nothing can change before it ends."""
        return bool(self.batch)

    def blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def head_of_line_blocks(self) -> int:
        return max(1, self.blocks_of(self.queue[0].prefill_tokens)) if self.queue else 0

    def waiting_blocks(self) -> float:
        return self.waiting_tokens / self.block_tokens

    def waiting_requests(self) -> int:
        return len(self.queue)

    def running_requests(self) -> int:
        return len(self.batch) + len(self.paused)

    def running(self) -> Iterable[TierRequest]:
        """Requests that hold blocks, or an entry in the block table."""
        return chain(self.batch, self.paused)

    def batch_size(self) -> int:
        return self.running_requests()

    def outstanding(self) -> int:
        """Waiting requests, requests that hold blocks, and again those of them that sit out the batch in flight."""
        return len(self.queue) + len(self.batch) + 2 * len(self.paused)

    def served_s(self, first: int) -> list[float]:
        """Seconds from first scheduling to completion of the completed requests from number `first` on."""
        return [request.completion_s - request.first_scheduled_s for request in self.completed[first:]]

    def next_iteration_alone_s(self, request: TierRequest) -> float:
        """Predicted seconds of a waiting request's whole prefill in a batch of its own."""
        tokens = request.prefill_tokens
        return self.config.time_model.iteration_s(tokens, 0, 0, tokens * tokens)

    # What the cluster does

    def enqueue(self, request: TierRequest) -> None:
        self.requests_of_tier[request.tier] += 1
        self.waiting_tokens += request.prefill_tokens
        self.queue.append(request)

    def advance(self, now_s: float) -> float:
        """End the batch in flight, if any, and start the next; return its seconds, inf if there is nothing to run."""
        if self.batch:
            self._finish(now_s)
        self._compose()
        if not self.batch:
            return math.inf
        for request in self.batch:
            if request.first_scheduled_s is None:
                request.first_scheduled_s = now_s
        self.duration_s = self._iteration_s()
        self.busy_s += self.duration_s
        return self.duration_s

    def require_fits(self, request: TierRequest) -> None:
        """Raise UserError for a request that this replica could never finish."""
        blocks = self.blocks_of(request.total_tokens) + self.watermark_blocks
        if blocks > self.total_blocks:
            raise UserError(
                f"request {request.id} has {request.total_tokens} tokens and needs {blocks} KV blocks with the "
                f"watermark; a replica has {self.total_blocks}: allow more blocks or shorter requests"
            )

    # What subclasses say

    def _compose(self) -> None:
        """Fill `batch` and `new_tokens`; leave them empty if nothing can run."""
        raise NotImplementedError

    def _after_iteration(self, request: TierRequest) -> None:
        """Put away a request of the batch that is not done."""
        self.paused.append(request)

    # Shared parts

    def _finish(self, now_s: float) -> None:
        batch, new_tokens, duration_s = self.batch, self.new_tokens, self.duration_s
        self.batch, self.new_tokens = [], []
        for request, tokens in zip(batch, new_tokens, strict=True):
            request.busy_s += duration_s
            processed = request.processed + tokens
            if processed == request.prefill_tokens:
                processed += 1  # the end of a prefill makes a token
                if request.first_token_s is None:
                    request.first_token_s = now_s
            request.processed = processed
            if processed == request.total_tokens:
                self._complete(request, now_s)
            else:
                self._after_iteration(request)

    def _complete(self, request: TierRequest, now_s: float) -> None:
        request.completion_s = now_s
        self._release(request)
        self.requests_of_tier[request.tier] -= 1
        self.completed.append(request)
        if request.migration is not None:
            request.migration.abort()

    def _iteration_s(self) -> float:
        tokens_in_batch = decodes = decode_kv = squares = 0
        for request, tokens in zip(self.batch, self.new_tokens, strict=True):
            tokens_in_batch += tokens
            cached = request.processed
            if cached < request.prefill_tokens:
                squares += tokens * (2 * cached + tokens)
            else:
                decodes += 1
                decode_kv += cached - 1  # the newest token has no KV yet
        clamp = self.config.attention_clamp_seqs
        if clamp is not None and decodes > clamp:
            decode_kv = decode_kv * clamp / decodes
            decodes = clamp
        return self.config.time_model.iteration_s(tokens_in_batch, decodes, decode_kv, squares)

    def take(self, request: TierRequest, blocks: int) -> None:
        """Let a request hold more blocks."""
        request.blocks += blocks
        self.used_blocks += blocks

    def _release(self, request: TierRequest) -> None:
        self.used_blocks -= request.blocks
        request.blocks = 0

    def _restart(self, request: TierRequest) -> None:
        """Recompute later: free the blocks, go to the front of the queue."""
        self._release(request)
        request.restart()
        self.waiting_tokens += request.prefill_tokens
        self.queue.appendleft(request)

    def _grown(self, request: TierRequest, victims: deque[TierRequest]) -> bool:
        """Give a decode the block that its next token may need, after restarting victims from the end if none is free.

        Even a decode that needs no new block is scheduled only while one is free. False: it was restarted itself.
        """
        while self.used_blocks >= self.total_blocks:
            if not victims:
                self._restart(request)
                return False
            self._restart(victims.pop())
        if request.processed > request.blocks * self.block_tokens:
            self.take(request, 1)
        return True

    def _admits(self, request: TierRequest) -> bool:
        """Do the blocks of the whole prompt leave the watermark free?"""
        left = self.total_blocks - self.used_blocks - self.blocks_of(request.prefill_tokens)
        return left >= self.watermark_blocks

    def _admit(self, blocks: int, tokens: int) -> None:
        """Take the head of the queue into the batch."""
        request = self.queue.popleft()
        self.waiting_tokens -= request.prefill_tokens
        self.take(request, blocks)
        self._add(request, tokens)

    def _add(self, request: TierRequest, tokens: int) -> None:
        self.batch.append(request)
        self.new_tokens.append(tokens)


def by_arrival(request: TierRequest) -> tuple[float, int]:
    return request.arrival_s, request.id

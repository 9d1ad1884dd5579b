"""What the chunked-prefill schedulers share: a *shadow* count of prompt tokens still to prefill.

The published engine prefills at no cost and ignores that count: a request still "in prefill" already decodes. What
is left of chunked prefill is an admission throttle of `token_budget` prompt tokens a step. The audit's
`shadow_prefill` and `prefill_free` change it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from servestudy.schedulers.protocol import Action, ReplicaView, Request
from servestudy.schedulers.published.block_scheduler import BlockScheduler


@dataclass
class ChunkedPrefillScheduler(BlockScheduler):
    """`prefill_count` says what the count is for: published `shadow`; `modelled`: the engine prefills what is counted;
    `at_once`: a prompt counts as prefilled when it is admitted."""

    blocks_grow: ClassVar[bool] = True
    token_budget: int = 512
    max_num_seqs: int = 128
    prefill_count: str = "shadow"

    def reset(self) -> None:
        super().reset()
        self._granted: dict[int, int] = {}  # id -> prompt tokens that the engine shall prefill in this step
        self._to_prefill: dict[int, int] = {}  # id -> shadow prompt tokens left, in admission order
        self._chunk = 0  # what the one prefilling request gets in each skipped step

    def begin(self, view: ReplicaView) -> int:
        skipped = super().begin(view)
        self._granted = {}
        if self._chunk:
            for request_id in self._to_prefill:
                self._to_prefill[request_id] -= skipped * self._chunk
            self._chunk = 0
        return skipped

    def drop(self, request_id: int) -> None:
        super().drop(request_id)
        self._to_prefill.pop(request_id, None)

    def prefilling_by_arrival(self) -> list[int]:
        if len(self._to_prefill) < 2:
            return list(self._to_prefill)
        return [request_id for request_id in self.by_arrival() if request_id in self._to_prefill]

    def prefill(self, request_id: int, tokens: int) -> None:
        """Spend budget on a request in shadow prefill; after the last token its blocks may grow."""
        self._granted[request_id] = tokens
        left = self._to_prefill[request_id] - tokens
        if left:
            self._to_prefill[request_id] = left
        else:
            del self._to_prefill[request_id]
            if self.blocks_grow:
                self._blocks.grow(request_id)

    def start_prefill(self, request: Request, tokens: int) -> None:
        """Admit a request whose first `tokens` prompt tokens are prefilled in this step."""
        self._granted[request.request_id] = tokens
        left = 0 if self.prefill_count == "at_once" else request.prompt_tokens - tokens
        self.take(request, request.prompt_tokens, growing=self.blocks_grow and not left)
        if left:
            self._to_prefill[request.request_id] = left

    def admit(self, candidates: Iterable[Request], view: ReplicaView, tokens: int, seqs: int) -> tuple[list[int], int]:
        """Admit candidates in order until blocks, sequences or the budget close the queue.

        `tokens` and `seqs` are what this step has already spent. A candidate that the engine would not take is
        passed over; the engine's state counts as it was before this step's evictions. Returns the ids and the
        tokens then spent.
        """
        admit: list[int] = []
        limits, blocks, budget = view.limits, self._blocks, self.token_budget
        max_seqs = min(self.max_num_seqs, limits.max_num_seqs)
        running, kv_tokens = view.running_count, view.kv_tokens
        for request in candidates:
            prompt = request.prompt_tokens
            if tokens >= budget or seqs >= max_seqs or not blocks.can_allocate(prompt):
                break
            if limits.fits(running, kv_tokens, prompt):
                chunk = min(prompt, budget - tokens)
                self.start_prefill(request, chunk)
                admit.append(request.request_id)
                tokens += chunk
                seqs += 1
                running += 1
                kv_tokens += prompt
        return admit, tokens

    def action(self, admit: list[int], further_steps: int, **others) -> Action:
        """The decision, with the chunks of this step if the engine is to prefill them."""
        prefill = self._granted if self.prefill_count == "modelled" else None
        return Action(admit, valid_steps=1 + further_steps, prefill=prefill, **others)

    def may_admit_more(self, view: ReplicaView, tokens: int) -> bool:
        """Could the next step admit what this one did not? Only if the budget was what closed the queue."""
        return bool(view.waiting_count) and tokens >= self.token_budget

    def steps_of_one_prefill(self) -> int:
        """How many further steps go by with one prefilling request taking all the budget that decodes leave.

        It leaves nothing for the queue until the step in which it ends.
        """
        (left,) = self._to_prefill.values()
        chunk = self.token_budget - self._blocks.growing_count
        if chunk <= 0:
            return 0
        self._chunk = chunk
        return min((left - 1) // chunk, self._blocks.safe_ticks())


class FirstComeChunkedScheduler(ChunkedPrefillScheduler):
    """Serve the running requests within the budget, then admit in queue order."""

    def serve_running(self) -> tuple[int, int, list[int]]:
        """Let running requests decode and prefill; return tokens spent, sequences counted, and ids evicted."""
        raise NotImplementedError

    def decodes_come_first(self) -> bool:
        """Is every decode served before the one request that prefills?"""
        return True

    def decide(self, view: ReplicaView) -> Action:
        self.begin(view)
        tokens, seqs, preempt = self.serve_running()
        admit = []
        if view.waiting_count and tokens < self.token_budget:
            admit, tokens = self.admit(view.waiting, view, tokens, seqs)
        if preempt or len(self._to_prefill) > 1:
            further_steps = 0
        elif self._to_prefill:
            further_steps = self.steps_of_one_prefill() if self.decodes_come_first() else 0
        elif self.may_admit_more(view, tokens):
            further_steps = 0
        else:
            further_steps = self._blocks.safe_ticks()
        return self.action(admit, further_steps, preempt=preempt)

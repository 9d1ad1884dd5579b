"""What the chunked-prefill schedulers share: a *shadow* count of prompt tokens still to prefill.

The published engine prefills at no cost and ignores that count: a request still "in prefill" already decodes. What is
left of chunked prefill is an admission throttle of `token_budget` prompt tokens a step.
"""

from dataclasses import dataclass
from typing import ClassVar

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.published.block_scheduler import BlockScheduler


@dataclass
class ChunkedPrefillScheduler(BlockScheduler):
    blocks_grow: ClassVar[bool] = True
    token_budget: int = 512

    def reset(self) -> None:
        super().reset()
        self._to_prefill: dict[int, int] = {}  # id -> shadow prompt tokens left, in admission order
        self._chunk = 0  # what the one prefilling request gets in each skipped step

    def begin(self, view: ReplicaView) -> int:
        skipped = super().begin(view)
        if self._chunk:
            for request_id in self._to_prefill:
                self._to_prefill[request_id] -= skipped * self._chunk
            self._chunk = 0
        return skipped

    def drop(self, request_id: int) -> None:
        super().drop(request_id)
        self._to_prefill.pop(request_id, None)

    def prefill(self, request_id: int, tokens: int) -> None:
        """Spend budget on a request in shadow prefill; after the last token its blocks may grow."""
        self._to_prefill[request_id] -= tokens
        if not self._to_prefill[request_id]:
            del self._to_prefill[request_id]
            if self.blocks_grow:
                self._blocks.grow(request_id)

    def start_prefill(self, request: Request, tokens: int) -> None:
        """Admit a request whose first `tokens` prompt tokens are prefilled in this step."""
        self.take(request, request.prompt_tokens, growing=self.blocks_grow and tokens == request.prompt_tokens)
        if tokens < request.prompt_tokens:
            self._to_prefill[request.request_id] = request.prompt_tokens - tokens

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

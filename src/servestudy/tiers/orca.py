"""Orca as the study's simulator has it: iteration-level batching, the longest sequence reserved for each request."""

from servestudy.errors import UserError
from servestudy.tiers.replica import ReplicaConfig, TierReplica
from servestudy.tiers.request import TierRequest


class OrcaReplica(TierReplica):
    """All running requests and then new whole prompts in one batch, as many as reservations and sequences allow."""

    def __init__(self, index: int, config: ReplicaConfig) -> None:
        super().__init__(index, config)
        self.reservation_blocks = self.blocks_of(config.max_sequence_tokens)
        self.slots = min(config.total_blocks // self.reservation_blocks, config.max_num_seqs)

    def _compose(self) -> None:
        for request in self.paused:
            self._add(request, 1)
        self.paused = []
        while self.queue and len(self.batch) < self.slots:
            self._admit(self.reservation_blocks, self.queue[0].prefill_tokens)

    def require_fits(self, request: TierRequest) -> None:
        super().require_fits(request)
        longest = self.config.max_sequence_tokens
        if request.total_tokens > longest or not self.slots:
            raise UserError(
                f"request {request.id} has {request.total_tokens} tokens; Orca reserves max_sequence_tokens = "
                f"{longest} of {self.total_blocks * self.block_tokens} KV tokens for each: allow more of either"
            )

"""vLLM as the simulator of the study has it (vLLM v0): prefill first, a batch is only prefills or only decodes."""

from collections import deque

from servestudy.errors import UserError
from servestudy.tiers.replica import TierReplica, by_arrival
from servestudy.tiers.request import TierRequest


class VllmReplica(TierReplica):
    """Whole prompts in order of arrival while blocks, tokens and sequences allow; otherwise all decodes.

    Requests times the longest prompt must not exceed `max_batch_tokens`. Without a free block the request that arrived
    last is restarted.
    """

    def _compose(self) -> None:
        config, longest = self.config, 0
        while self.queue:
            request = self.queue[0]
            longest = max(longest, request.prefill_tokens)
            if (
                not self._admits(request)
                or (len(self.batch) + 1) * longest > config.max_batch_tokens
                or self.running_requests() >= config.max_num_seqs
            ):
                break
            self._admit(self.blocks_of(request.prefill_tokens), request.prefill_tokens)
        if self.batch:
            return
        waiting = deque(sorted(self.paused, key=by_arrival))
        while waiting and len(self.batch) < config.max_num_seqs:
            request = waiting.popleft()
            if self._grown(request, waiting):
                self._add(request, 1)
        self.paused = list(waiting)

    def require_fits(self, request: TierRequest) -> None:
        super().require_fits(request)
        if request.total_tokens > self.config.max_batch_tokens:  # a restart may make all of it a prompt
            raise UserError(
                f"request {request.id} has {request.total_tokens} tokens, more than max_batch_tokens = "
                f"{self.config.max_batch_tokens}: vLLM without chunked prefill would wait for it for ever"
            )

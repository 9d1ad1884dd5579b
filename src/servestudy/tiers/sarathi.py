"""Sarathi-Serve as the simulator of the study has it: decodes first, then chunks of prompts, in one token budget."""

from collections import deque

from servestudy.tiers.replica import TierReplica, by_arrival


class SarathiReplica(TierReplica):
    """Decodes, then chunks of running prefills, then new requests, until `chunk_tokens` are in the batch.

    Decodes are not limited by the budget. Admission and restarts are vLLM's; a whole prompt's blocks are taken at once.
    """

    def _compose(self) -> None:
        config = self.config
        waiting = deque(sorted(self.paused, key=by_arrival))
        prefilling = []
        while waiting and len(self.batch) < config.max_num_seqs:
            request = waiting.popleft()
            if not request.prefilled:
                prefilling.append(request)
            elif self._grown(request, waiting):
                self._add(request, 1)
        budget = config.chunk_tokens - len(self.batch)
        self.paused = list(waiting)
        for request in prefilling:
            tokens = min(request.prefill_tokens - request.processed, budget)
            if tokens > 0:
                self._add(request, tokens)
                budget -= tokens
            else:
                self.paused.append(request)
        while self.queue and budget > 0:
            request = self.queue[0]
            full = len(self.batch) >= config.max_num_seqs or self.running_requests() >= config.max_num_seqs
            if full or not self._admits(request):
                break
            tokens = min(request.prefill_tokens, budget)
            self._admit(self.blocks_of(request.prefill_tokens), tokens)
            budget -= tokens

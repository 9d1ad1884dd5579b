"""Sarathi-Serve (commit ceaa0660): stall-free batching, decodes first, then one chunk budget for prefills."""

from dataclasses import dataclass

from servestudy.schedulers.protocol import Action, ReplicaView
from servestudy.schedulers.published.chunked_prefill import ChunkedPrefillScheduler


@dataclass
class SarathiFaithful(ChunkedPrefillScheduler):
    max_num_seqs: int = 128

    def decide(self, view: ReplicaView) -> Action:
        self.begin(view)
        blocks, limits = self._blocks, view.limits
        was_prefilling = bool(self._to_prefill)

        preempt = []
        if not blocks.tick_fits():
            decodes = [request_id for _, request_id in self._by_arrival if request_id not in self._to_prefill]
            preempt = blocks.victims_of_next_tick(decodes)
            for request_id in preempt:
                self.drop(request_id)
        blocks.tick()
        tokens = blocks.growing_count
        seqs = len(blocks)
        for request_id in sorted(self._to_prefill, key=lambda i: (self._arrival_s[i], i)):
            chunk = min(self._to_prefill[request_id], self.token_budget - tokens)
            if chunk > 0:
                self.prefill(request_id, chunk)
                tokens += chunk

        max_seqs = min(self.max_num_seqs, limits.max_num_seqs)
        running, kv_tokens = view.running_count, view.kv_tokens  # still with this step's victims
        admit = []
        for request in view.waiting:
            prompt = request.prompt_tokens
            chunk = min(prompt, self.token_budget - tokens)
            if not blocks.can_allocate(prompt) or seqs + 1 > max_seqs or chunk <= 0:
                break
            if limits.fits(running, kv_tokens, prompt):
                self.start_prefill(request, chunk)
                admit.append(request.request_id)
                tokens += chunk
                seqs += 1
                running += 1
                kv_tokens += prompt

        if preempt or len(self._to_prefill) > 1:
            further_steps = 0
        elif self._to_prefill:
            further_steps = self.steps_of_one_prefill()
        elif (admit or was_prefilling) and len(admit) < view.waiting_count:
            further_steps = 0
        else:
            further_steps = blocks.safe_ticks()
        return Action(admit, preempt, valid_steps=1 + further_steps)

"""Sarathi-Serve (commit ceaa0660): stall-free batching, decodes first, then one chunk budget for prefills."""

from dataclasses import dataclass

from servestudy.schedulers.published.chunked_prefill import FirstComeChunkedScheduler


@dataclass
class SarathiFaithful(FirstComeChunkedScheduler):
    def serve_running(self) -> tuple[int, int, list[int]]:
        """Every decode takes a token, evicting among decodes only; prefills by (arrival, id) share what is left."""
        blocks = self._blocks
        preempt = []
        if not blocks.tick_fits():
            decodes = [request_id for request_id in self.by_arrival() if request_id not in self._to_prefill]
            preempt = blocks.victims_of_next_tick(decodes)
            for request_id in preempt:
                self.drop(request_id)
        blocks.tick()
        tokens = blocks.growing_count
        seqs = len(blocks)  # with the prefills that get nothing
        for request_id in self.prefilling_by_arrival():
            chunk = min(self._to_prefill[request_id], self.token_budget - tokens)
            if chunk > 0:
                self.prefill(request_id, chunk)
                tokens += chunk
        return tokens, seqs, preempt

"""vLLM with chunked prefill as of v0.4.2 (commit c7f2cf2b), first come first served."""

from dataclasses import dataclass

from servestudy.schedulers.published.chunked_prefill import FirstComeChunkedScheduler


@dataclass
class VllmChunkedPrefillFaithful(FirstComeChunkedScheduler):
    max_num_seqs: int = 256

    def decodes_come_first(self) -> bool:
        if not self._to_prefill:
            return True
        if len(self._to_prefill) > 1:
            return False
        (request_id,) = self._to_prefill
        return (self._arrival_s[request_id], request_id) == self._latest_arrival

    def serve_running(self) -> tuple[int, int, list[int]]:
        """Spend the budget on running requests by (arrival, id): one token a decode, a chunk a prefill.

        Where the budget ends, the rest gets nothing: it is not counted, and its blocks do not grow.
        """
        blocks = self._blocks
        if blocks.tick_fits() and self.decodes_come_first() and blocks.growing_count < self.token_budget:
            blocks.tick()
            tokens, seqs = blocks.growing_count, len(blocks)
            for request_id, left in list(self._to_prefill.items()):
                chunk = min(left, self.token_budget - tokens)
                self.prefill(request_id, chunk)
                tokens += chunk
            return tokens, seqs, []
        return self._serve_one_by_one()

    def _serve_one_by_one(self) -> tuple[int, int, list[int]]:
        blocks = self._blocks
        in_order = self.by_arrival()
        spend: dict[int, int] = {}
        tokens = 0
        for request_id in in_order:
            want = min(self._to_prefill.get(request_id, 1), self.token_budget - tokens)
            if not want:
                break
            spend[request_id] = want
            tokens += want
        unserved = [request_id for request_id in in_order[len(spend) :] if request_id not in self._to_prefill]
        for request_id in unserved:
            blocks.keep_size(request_id)
        preempt = blocks.victims_of_next_tick(in_order, serve=len(spend))
        for request_id in preempt:
            self.drop(request_id)
            spend.pop(request_id, None)
        blocks.tick()
        for request_id in unserved:
            if request_id not in preempt:
                blocks.grow(request_id)
        for request_id, want in spend.items():
            if request_id in self._to_prefill:
                self.prefill(request_id, want)
        return sum(spend.values()), len(spend), preempt

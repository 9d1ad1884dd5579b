"""vLLM with chunked prefill as of v0.4.2 (commit c7f2cf2b), first come first served."""

from dataclasses import dataclass

from servestudy.schedulers.protocol import Action, ReplicaView
from servestudy.schedulers.published.chunked_prefill import ChunkedPrefillScheduler


@dataclass
class VllmChunkedPrefillFaithful(ChunkedPrefillScheduler):
    max_num_seqs: int = 256

    def decide(self, view: ReplicaView) -> Action:
        self.begin(view)
        blocks, limits = self._blocks, view.limits
        was_prefilling = bool(self._to_prefill)
        tokens, seqs, preempt = self._serve_running()

        max_seqs = min(self.max_num_seqs, limits.max_num_seqs)
        running, kv_tokens = view.running_count, view.kv_tokens  # still with this step's victims
        admit = []
        for request in view.waiting:
            prompt = request.prompt_tokens
            chunk = min(prompt, max(0, self.token_budget - tokens))
            if not blocks.can_allocate(prompt) or chunk == 0 or seqs + 1 > max_seqs:
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
            further_steps = self.steps_of_one_prefill() if self._only_last_prefills() else 0
        elif (admit or was_prefilling) and len(admit) < view.waiting_count:
            further_steps = 0
        else:
            further_steps = blocks.safe_ticks()
        return Action(admit, preempt, valid_steps=1 + further_steps)

    def _only_last_prefills(self) -> bool:
        """Is the only prefilling request, if any, the last by arrival, so that every decode is served before it?"""
        return not self._to_prefill or (
            len(self._to_prefill) == 1 and self._by_arrival[-1][1] in self._to_prefill
        )

    def _serve_running(self) -> tuple[int, int, list[int]]:
        """Spend the budget on running requests by (arrival, id): one token a decode, a chunk a prefill.

        Where the budget ends, the rest gets nothing: it is not counted and its blocks do not grow. Returns tokens
        spent, sequences counted, and the ids evicted for lack of blocks.
        """
        blocks, budget = self._blocks, self.token_budget
        decodes = blocks.growing_count
        if blocks.tick_fits() and self._only_last_prefills() and decodes < budget:
            blocks.tick()
            tokens, seqs = decodes, len(blocks)
            for request_id, left in list(self._to_prefill.items()):
                chunk = min(left, budget - tokens)
                self.prefill(request_id, chunk)
                tokens += chunk
            return tokens, seqs, []

        in_order = [request_id for _, request_id in self._by_arrival]
        spend: dict[int, int] = {}
        tokens = 0
        for request_id in in_order:
            want = min(self._to_prefill.get(request_id, 1), budget - tokens)
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

"""Shortest predicted output first, with KV counted in whole blocks: a proxy inspired by vLLM."""

from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request
from servestudy.schedulers.published.greedy import FixedOrderScheduler


@dataclass
class VllmStyleTokenBudget(FixedOrderScheduler):
    block_tokens: int = 16

    def key(self, request: Request) -> tuple:
        return (request.predicted_output_tokens, request.arrival_s, request.request_id)

    def decide(self, view: ReplicaView) -> Action:
        limits = view.limits
        self._queue.add(view.joined)
        running, kv_tokens = view.running_count, view.kv_tokens
        if running >= limits.max_num_seqs or not view.waiting_count:
            return WAIT
        admit = []
        for request in self._queue:
            if running >= limits.max_num_seqs:
                break
            rounded = -(-request.prompt_tokens // self.block_tokens) * self.block_tokens
            if limits.fits(running, kv_tokens, rounded):
                admit.append(request.request_id)
                running += 1
                kv_tokens += rounded
        self._queue.remove(admit)
        # The rounding counts within one call only: after an admission the next call starts from the exact KV and
        # may admit what just failed.
        return Action(admit, valid_steps=1 if admit else UNTIL_EVENT)

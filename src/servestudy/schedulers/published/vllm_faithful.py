"""vLLM as of v0.1.0 (commit 67d96c29): first come first served, whole prompts, block-wise preemption.

A prompt longer than the batched-token cap at the head of the queue blocks every later admission for ever. That is a
published property and is reproduced here; the audit's `head_of_line_2560` changes it.
"""

from dataclasses import dataclass

from servestudy.schedulers.protocol import Action, ReplicaView
from servestudy.schedulers.published.block_scheduler import BlockScheduler


@dataclass
class VllmFaithful(BlockScheduler):
    """`oversize` says what becomes of a prompt that alone exceeds the cap: published `blocks`; `alone`: it is admitted
    if nothing else was in this step; `skipped`: it is passed over, for ever."""

    max_num_batched_tokens: float = 2560
    max_num_seqs: int = 256
    oversize: str = "blocks"

    def decide(self, view: ReplicaView) -> Action:
        self.begin(view)
        blocks, limits = self._blocks, view.limits
        preempt = []
        if not blocks.tick_fits():
            preempt = blocks.victims_of_next_tick(self.by_arrival())
            for request_id in preempt:
                self.drop(request_id)
        blocks.tick()

        batched_tokens = seqs = len(blocks)
        max_seqs = min(self.max_num_seqs, limits.max_num_seqs)
        running, kv_tokens = view.running_count, view.kv_tokens  # still with this step's victims
        admit, max_batched_tokens = [], self.max_num_batched_tokens
        for request in view.waiting:
            prompt = request.prompt_tokens
            is_oversize = prompt > max_batched_tokens
            if is_oversize and self.oversize == "skipped":
                continue
            over_budget = batched_tokens + prompt > max_batched_tokens
            if is_oversize and self.oversize == "alone":
                over_budget = bool(admit)
            if over_budget or seqs + 1 > max_seqs or not blocks.can_allocate(prompt + 1):
                break
            if limits.fits(running, kv_tokens, prompt):
                self.take(request, prompt + 1, growing=True)
                admit.append(request.request_id)
                batched_tokens += prompt
                seqs += 1
                running += 1
                kv_tokens += prompt

        # What closed the queue still closes it in the next step, unless this step's own admissions or evictions did.
        may_continue = (admit or preempt) and len(admit) < view.waiting_count + len(preempt)
        return Action(admit, preempt, valid_steps=1 if may_continue else 1 + blocks.safe_ticks())

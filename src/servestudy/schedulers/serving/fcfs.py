"""First come, first served, with chunked prefill: the head of the queue waits until it fits, and all wait behind it.

The order of Orca (OSDI '22) and of vLLM (SOSP '23); decodes first, prefills share the rest of the token budget, as in
Sarathi-Serve (OSDI '24). Simplified: none.
"""

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Scheduler


class Fcfs(Scheduler):
    def decide(self, view: ReplicaView) -> Action:
        limits = view.limits
        slots = limits.max_num_seqs - view.running_count
        if not slots or not view.waiting_count:
            return WAIT
        budget = limits.max_num_batched_tokens - view.decoding_count - view.prefill_backlog
        room = limits.max_kv_tokens - limits.watermark_tokens - view.kv_tokens
        admit = []
        for request in view.queue:
            if budget <= 0:
                return Action(admit)
            tokens = view.prefill_left(request.request_id)
            room -= tokens + -tokens % limits.block_tokens
            if room < 0 or len(admit) == slots:
                break
            admit.append(request.request_id)
            budget -= tokens
        return Action(admit, valid_steps=UNTIL_EVENT)

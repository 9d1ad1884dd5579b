"""KV-aware online admission: keep KV use under a target unless a request is urgent.

A simulator proxy of the study, not a reimplementation of a published system.
"""

import math
from dataclasses import dataclass

from servestudy.schedulers.protocol import WAIT, Action, ReplicaView, Request, Scheduler
from servestudy.schedulers.published.estimates import STEPS_PER_PROMPT_TOKEN, laxity_s, safe_steps_until


@dataclass
class KvConstrainedOnline(Scheduler):
    kv_target: float = 0.82
    urgent_laxity_s: float = 0.25
    output_share: float = 0.25
    steps_per_prompt_token: float = STEPS_PER_PROMPT_TOKEN

    def reset(self) -> None:
        self._waiting: list[tuple[float, Request]] = []  # footprint over weight, request; in the last order

    def decide(self, view: ReplicaView) -> Action:
        for request in view.joined:
            footprint = request.prompt_tokens + self.output_share * request.predicted_output_tokens
            self._waiting.append((footprint / max(request.weight, 1e-9), request))
        limits = view.limits
        now, per_prompt_token = view.time_s, self.steps_per_prompt_token
        running, kv_tokens = view.running_count, view.kv_tokens
        if running >= limits.max_num_seqs or not view.waiting_count:
            return WAIT

        def key(entry: tuple[float, Request]) -> tuple:
            laxity = laxity_s(entry[1], now, per_prompt_token)
            return (laxity > self.urgent_laxity_s, entry[0], laxity, entry[1].request_id)

        self._waiting.sort(key=key)
        admit = []
        next_urgent = math.inf
        for _, request in self._waiting:
            if running >= limits.max_num_seqs:
                break
            if not limits.fits(running, kv_tokens, request.prompt_tokens):
                continue
            laxity = laxity_s(request, now, per_prompt_token)
            on_target = (kv_tokens + request.prompt_tokens) / limits.max_kv_tokens <= self.kv_target
            if on_target or laxity <= self.urgent_laxity_s:
                admit.append(request.request_id)
                running += 1
                kv_tokens += request.prompt_tokens
            else:
                next_urgent = min(next_urgent, laxity)
        if admit:
            self._waiting = [entry for entry in self._waiting if entry[1].request_id not in admit]
        return Action(admit, valid_steps=safe_steps_until(next_urgent, self.urgent_laxity_s))

"""SLO guard with admission credit: a proxy inspired by Scorpio.

A request with negative laxity is skipped for ever but stays in the queue: such runs end at the drain limit. That is
a published property and is reproduced here; the audit's `scorpio_starvation` changes it.
"""

import math
from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request, Scheduler
from servestudy.schedulers.published.estimates import (
    STEP_S,
    STEPS_PER_PROMPT_TOKEN,
    laxity_s,
    safe_steps_until,
    service_steps,
)


@dataclass
class ScorpioStyleSloGuard(Scheduler):
    """`hopeless` says what becomes of waiting requests without laxity: published `never` (admitted); `last`: after all
    others, in queue order; `last_by_laxity`; `last_by_service`, shortest first; `dropped`: turned away.
    `hopeless_take_credit`: whether they count against the guard's cap and credit."""

    max_credit: float = 4.0
    credit_refill: float = 2.0
    credit_cost: float = 1.0
    kv_guard: float = 0.65
    batch_guard: float = 0.70
    queue_guard: float = 3.0
    min_laxity_s: float = 0.0
    min_ttft_slack_s: float = 0.0
    long_output_tokens: int = 256
    long_output_laxity_s: float = 0.5
    priority_weight: float = 1.0
    age_weight: float = 0.05
    decode_penalty: float = 0.35
    steps_per_prompt_token: float = STEPS_PER_PROMPT_TOKEN
    hopeless: str = "never"
    hopeless_take_credit: bool = True

    def reset(self) -> None:
        self._credit = self.max_credit
        self._viable: list[Request] = []  # waiting requests that had slack so far; who has none never has again

    def decide(self, view: ReplicaView) -> Action:
        self._viable += view.joined
        if not view.waiting_count:
            return WAIT
        limits, now = view.limits, view.time_s
        running, kv_tokens = view.running_count, view.kv_tokens
        self._credit = min(self.max_credit, self._credit + self.credit_refill)

        candidates = [
            (laxity, request)
            for request in self._viable
            if (laxity := laxity_s(request, now, self.steps_per_prompt_token)) >= self.min_laxity_s
            and (request.deadline_s - now) - (self.steps_per_prompt_token * request.prompt_tokens * STEP_S)
            >= self.min_ttft_slack_s
        ]
        self._viable = [request for _, request in candidates]
        next_drop = math.inf
        if self.hopeless == "dropped":
            next_drop = min((laxity for laxity, _ in candidates), default=math.inf)
        hopeless = [] if self.hopeless == "never" else self._hopeless(view)
        # The published guard also acts on a negative mean laxity of the candidates, which these cannot have.
        kv_is_short = kv_tokens / limits.max_kv_tokens >= self.kv_guard
        batch_share = running / limits.max_num_seqs
        guard = (
            kv_is_short
            or batch_share >= self.batch_guard
            or view.waiting_count / limits.max_num_seqs >= self.queue_guard
        )
        next_urgent = math.inf
        if kv_is_short:
            put_off = [
                laxity
                for laxity, request in candidates
                if request.predicted_output_tokens > self.long_output_tokens and laxity >= self.long_output_laxity_s
            ]
            next_urgent = min(put_off, default=math.inf)
            candidates = [
                (laxity, request)
                for laxity, request in candidates
                if request.predicted_output_tokens <= self.long_output_tokens or laxity < self.long_output_laxity_s
            ]

        def key(candidate: tuple[float, Request]) -> tuple:
            laxity, request = candidate
            score = (
                1 / max(laxity, 1e-9)
                + self.priority_weight * request.weight
                + self.age_weight * (now - request.arrival_s)
            )
            if guard:
                score -= self.decode_penalty * request.predicted_output_tokens * batch_share
            return (-score, laxity, -request.weight, request.arrival_s, request.request_id)

        cap = max(1, int(self._credit)) if guard else math.inf
        admit: list[int] = []
        reject = [request.request_id for request in hopeless] if self.hopeless == "dropped" else []
        if running < limits.max_num_seqs:
            ordered = [request for _, request in sorted(candidates, key=key)]
            last = [] if reject else hopeless
            takes_credit = [guard] * len(ordered) + [guard and self.hopeless_take_credit] * len(last)
            for request, counts in zip(ordered + last, takes_credit, strict=True):
                if counts and len(admit) >= cap:
                    continue
                if limits.fits(running, kv_tokens, request.prompt_tokens):
                    admit.append(request.request_id)
                    running += 1
                    kv_tokens += request.prompt_tokens
                    if counts:
                        self._credit = max(0.0, self._credit - self.credit_cost)

        if admit:
            self._viable = [request for request in self._viable if request.request_id not in admit]
        if len(admit) + len(reject) == view.waiting_count:
            valid_steps = UNTIL_EVENT
        elif self._credit < self.max_credit:
            valid_steps = 1  # the next call refills the credit and may admit more
        else:
            valid_steps = safe_steps_until(next_urgent, self.long_output_laxity_s)
            valid_steps = min(valid_steps, safe_steps_until(next_drop, self.min_laxity_s))
        return Action(admit, valid_steps=valid_steps, reject=reject)

    def _hopeless(self, view: ReplicaView) -> list[Request]:
        """Waiting requests that are no longer viable, in the order in which they are tried."""
        viable = {request.request_id for request in self._viable}
        hopeless = [request for request in view.waiting if request.request_id not in viable]
        if self.hopeless == "last_by_laxity":
            hopeless.sort(key=lambda request: laxity_s(request, view.time_s, self.steps_per_prompt_token))
        elif self.hopeless == "last_by_service":
            hopeless.sort(key=lambda request: service_steps(request, self.steps_per_prompt_token))
        return hopeless

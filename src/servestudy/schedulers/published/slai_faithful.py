"""SLAI (commit 5098a7ab): decodes wait until their token deadline is near, prefill takes the budget meanwhile.

Shortest prompt first, dynamic offset. The only published scheduler that holds decodes. All requests of the study
fall in the slackest tier, and blocks never grow while decoding: published properties, reproduced here.
"""

from dataclasses import dataclass
from typing import ClassVar

from servestudy.schedulers.protocol import UNTIL_EVENT, Action, ReplicaView, Request
from servestudy.schedulers.published.chunked_prefill import ChunkedPrefillScheduler
from servestudy.schedulers.published.estimates import STEP_S, safe_steps_until

TBT_TIER_S = {"tight": 0.1, "interactive": 0.1, "critical": 0.1, "medium": 0.3, "standard": 0.3}
SLACKEST_TIER_S = 0.5


def tbt_target_s(request: Request) -> float:
    """Target time between tokens of a request's class."""
    return TBT_TIER_S.get(request.class_id, SLACKEST_TIER_S)


@dataclass
class SlaiFaithful(ChunkedPrefillScheduler):
    blocks_grow: ClassVar[bool] = False
    max_num_seqs: int = 128
    decode_limit: int = 128
    offset_steps: int = 5
    crowded_offset_steps: int = 10
    crowded_kv_share: float = 0.96

    def reset(self) -> None:
        super().reset()
        self._requests: dict[int, Request] = {}
        self._latest_start_s: dict[int, float] = {}  # of the next decode, for each decoding request
        self._skipped_offset_s: float | None = None  # offset in skipped steps that serve every decode

    def drop(self, request_id: int) -> None:
        super().drop(request_id)
        del self._requests[request_id]
        self._latest_start_s.pop(request_id, None)

    def decide(self, view: ReplicaView) -> Action:
        skipped = self.begin(view)
        if skipped and self._skipped_offset_s is not None:
            last_skipped_s = (view.step - 1) * STEP_S
            for request_id in self._decoding():
                self._serve(request_id, last_skipped_s, self._skipped_offset_s)
        self._skipped_offset_s = None

        now, limits = view.time_s, view.limits
        offset_s = self._offset_s(view.kv_tokens, limits.max_kv_tokens)
        decoding = self._decoding()
        for request_id in decoding:
            if request_id not in self._latest_start_s:
                self._serve(request_id, now, offset_s)
        decoding.sort(key=lambda request_id: (self._latest_start_s[request_id], request_id))
        critical = [request_id for request_id in decoding if now >= self._latest_start_s[request_id]]
        others = decoding[len(critical) :]
        served = critical[: self.decode_limit]

        tokens = len(served)
        filling = list(self._to_prefill)
        for request_id in filling:
            chunk = min(self._to_prefill[request_id], self.token_budget - tokens)
            if chunk > 0:
                self.prefill(request_id, chunk)
                tokens += chunk

        seqs = len(served) + len(others) + len(filling)
        admit, tokens = self._admit(view, seqs, tokens)

        spare = max(0, min(self.token_budget - tokens, self.decode_limit - len(served)))
        served += others[:spare]
        for request_id in served:
            self._serve(request_id, now, offset_s)
        hold = frozenset(decoding).difference(served)
        if critical or len(self._to_prefill) > 1:
            further_steps = 0
        elif self._to_prefill:
            further_steps = self._steps_of_holding(now, decoding, hold)
        elif hold or ((admit or filling) and len(admit) < view.waiting_count):
            further_steps = 0
        else:
            further_steps = self._steps_of_serving_all(view, admit)
        return Action(admit, hold=hold, valid_steps=1 + further_steps)

    def _decoding(self) -> list[int]:
        return [request_id for request_id in self._requests if request_id not in self._to_prefill]

    def _serve(self, request_id: int, now_s: float, offset_s: float) -> None:
        """Set the latest time at which the request's next token may start."""
        self._latest_start_s[request_id] = now_s + tbt_target_s(self._requests[request_id]) - offset_s

    def _offset_s(self, kv_tokens: int, max_kv_tokens: int) -> float:
        crowded = self._is_crowded(kv_tokens, max_kv_tokens)
        return (self.crowded_offset_steps if crowded else self.offset_steps) * STEP_S

    def _is_crowded(self, kv_tokens: int, max_kv_tokens: int) -> bool:
        return kv_tokens / max_kv_tokens >= self.crowded_kv_share

    def _admit(self, view: ReplicaView, seqs: int, tokens: int) -> tuple[list[int], int]:
        """Admit by (tier, prompt, id) until something does not go; return the ids and the tokens now spent."""
        limits = view.limits
        max_seqs = min(self.max_num_seqs, limits.max_num_seqs)
        admit: list[int] = []
        if tokens >= self.token_budget or seqs >= max_seqs:
            return admit, tokens
        running, kv_tokens = view.running_count, view.kv_tokens
        for request in sorted(view.waiting, key=lambda r: (tbt_target_s(r), r.prompt_tokens, r.request_id)):
            prompt = request.prompt_tokens
            chunk = min(prompt, self.token_budget - tokens)
            if not self._blocks.can_allocate(prompt) or seqs + 1 > max_seqs or chunk <= 0:
                break
            if limits.fits(running, kv_tokens, prompt):
                self._requests[request.request_id] = request
                self.start_prefill(request, chunk)
                admit.append(request.request_id)
                tokens += chunk
                seqs += 1
                running += 1
                kv_tokens += prompt
        return admit, tokens

    def _steps_of_holding(self, now: float, decoding: list[int], hold: frozenset[int]) -> int:
        """Further steps in which one prefill takes the whole budget and the same decodes are all held."""
        (left,) = self._to_prefill.values()
        if not len(hold) == len(decoding) == len(self._requests) - 1:
            return 0
        self._chunk = self.token_budget
        further_steps = (left - 1) // self.token_budget
        if hold:
            first_critical_s = min(self._latest_start_s[request_id] for request_id in hold)
            further_steps = min(further_steps, safe_steps_until(first_critical_s, now) - 1)
        return further_steps

    def _steps_of_serving_all(self, view: ReplicaView, admit: list[int]) -> int:
        """Further steps in which every decode is served with the same offset."""
        growth = len(self._requests)
        if not growth or growth > min(self.token_budget, self.decode_limit):
            return 0
        max_kv_tokens = view.limits.max_kv_tokens
        new_kv_tokens = sum(self._requests[request_id].prompt_tokens for request_id in admit)
        next_kv_tokens = view.kv_tokens + new_kv_tokens + growth
        self._skipped_offset_s = self._offset_s(next_kv_tokens, max_kv_tokens)
        if self._is_crowded(next_kv_tokens, max_kv_tokens):
            return UNTIL_EVENT
        return int(self.crowded_kv_share * max_kv_tokens - next_kv_tokens) // growth

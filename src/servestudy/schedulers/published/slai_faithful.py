"""SLAI (commit 5098a7ab): decodes wait until their token deadline is near, prefill takes the budget meanwhile.

Shortest prompt first, dynamic offset. The only published scheduler that holds decodes. All requests of the study
fall in the slackest tier, and blocks never grow while decoding: published properties, reproduced here; the audit's
`slai_slo_inactive` and `slai_blocks` change them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, Action, ReplicaView, Request
from servestudy.schedulers.published.chunked_prefill import ChunkedPrefillScheduler
from servestudy.schedulers.published.estimates import STEP_S, safe_steps_until
from servestudy.schedulers.published.sorted_queue import SortedQueue

TBT_TIER_S = {"tight": 0.1, "interactive": 0.1, "critical": 0.1, "medium": 0.3, "standard": 0.3}
SLACKEST_TIER_S = 0.5


@dataclass
class SlaiFaithful(ChunkedPrefillScheduler):
    blocks_grow: bool = False
    max_num_seqs: int = 128
    decode_limit: int = 128
    offset_steps: int = 5
    crowded_offset_steps: int = 10
    crowded_kv_share: float = 0.96
    slackest_tier_s: float = SLACKEST_TIER_S

    def tbt_target_s(self, request: Request) -> float:
        """Target time between tokens of a request's class."""
        return TBT_TIER_S.get(request.class_id, self.slackest_tier_s)

    def reset(self) -> None:
        super().reset()
        self._queue = SortedQueue(lambda r: (self.tbt_target_s(r), r.prompt_tokens, r.request_id))
        self._tbt_s: dict[int, float] = {}  # of running requests
        self._tiers_s: set[float] = set()  # all that were seen
        self._decode_ready: list[int] = []  # out of shadow prefill since the last call
        self.latest_start_s: dict[int, float] = {}  # of the next decode; the keys are the decoding requests
        self._first_critical_s = math.inf  # at or before the earliest of them
        self._skipped_offset_s: float | None = None  # offset in skipped steps, where these serve every decode

    def drop(self, request_id: int) -> None:
        super().drop(request_id)
        del self._tbt_s[request_id]
        self.latest_start_s.pop(request_id, None)

    def prefill(self, request_id: int, tokens: int) -> None:
        super().prefill(request_id, tokens)
        if request_id not in self._to_prefill:
            self._decode_ready.append(request_id)

    def start_prefill(self, request: Request, tokens: int) -> None:
        super().start_prefill(request, tokens)
        self._tbt_s[request.request_id] = self.tbt_target_s(request)
        self._tiers_s.add(self._tbt_s[request.request_id])
        if request.request_id not in self._to_prefill:
            self._decode_ready.append(request.request_id)

    def decide(self, view: ReplicaView) -> Action:
        self._queue.add(view.joined)
        skipped = self.begin(view)
        now, max_kv_tokens = view.time_s, view.limits.max_kv_tokens
        offset_s = self._offset_s(view.kv_tokens, max_kv_tokens)
        if self._decode_ready:
            self._serve([i for i in self._decode_ready if i in self._tbt_s], now, offset_s)
            self._decode_ready = []
        latest_start_s = self.latest_start_s
        if skipped and self._skipped_offset_s is not None:
            self._serve(list(latest_start_s), (view.step - 1) * STEP_S, self._skipped_offset_s)
        self._skipped_offset_s = None

        critical, others = [], list(latest_start_s)
        if now >= self._first_critical_s:
            self._first_critical_s = min(latest_start_s.values(), default=math.inf)
        if now >= self._first_critical_s:
            others = self._by_latest_start(others)
            critical = [request_id for request_id in others if now >= latest_start_s[request_id]]
            others = others[len(critical) :]
        served, held = critical[: self.decode_limit], critical[self.decode_limit :]

        tokens = len(served)
        seqs = len(served) + len(others) + len(self._to_prefill)
        for request_id in list(self._to_prefill):
            chunk = min(self._to_prefill[request_id], self.token_budget - tokens)
            if chunk > 0:
                self.prefill(request_id, chunk)
                tokens += chunk
        admit = []
        if view.waiting_count and tokens < self.token_budget:
            admit, tokens = self.admit(self._queue, view, tokens, seqs)
            self._queue.remove(admit)

        spare = min(self.token_budget - tokens, self.decode_limit - len(served))
        if spare >= len(others):
            served += others
        elif spare > 0:
            others = self._by_latest_start(others)
            served, held = served + others[:spare], others[spare:] + held
        else:
            held = others + held
        preempt = self._grow_blocks(served, held) if self.blocks_grow else ()
        if preempt:
            served = [request_id for request_id in served if request_id not in preempt]
        if served:
            self._serve(served, now, offset_s)

        if critical or len(self._to_prefill) > 1 or preempt or (self.blocks_grow and self._to_prefill):
            further_steps = 0
        elif self._to_prefill:
            further_steps = self._steps_of_holding(now, held)
        elif held or admit or self.may_admit_more(view, tokens):
            further_steps = 0
        else:
            further_steps = self._steps_of_serving_all(view.kv_tokens + len(self._tbt_s), max_kv_tokens)
        return self.action(admit, further_steps, preempt=preempt, hold=frozenset(held))

    def _grow_blocks(self, served: list[int], held: list[int]) -> list[int]:
        """Let each served decode take a token's room; evict from the back of them, as the other schedulers do."""
        blocks = self._blocks
        new = self._decode_ready
        for request_id in [*held, *new]:
            blocks.keep_size(request_id)
        preempt = [] if blocks.tick_fits() else blocks.victims_of_next_tick(served)
        for request_id in preempt:
            self.drop(request_id)
        blocks.tick()
        for request_id in [*held, *new]:
            blocks.grow(request_id)
        return preempt

    def _by_latest_start(self, request_ids: list[int]) -> list[int]:
        return sorted(request_ids, key=lambda request_id: (self.latest_start_s[request_id], request_id))

    def _serve(self, request_ids: Sequence[int], now_s: float, offset_s: float) -> None:
        """Set the latest time at which the next token of each may start."""
        for tbt_s in self._tiers_s:
            one_tier = len(self._tiers_s) == 1
            ids = request_ids if one_tier else [i for i in request_ids if self._tbt_s[i] == tbt_s]
            latest_start_s = now_s + tbt_s - offset_s
            self.latest_start_s.update(dict.fromkeys(ids, latest_start_s))
            self._first_critical_s = min(self._first_critical_s, latest_start_s)

    def _is_crowded(self, kv_tokens: int, max_kv_tokens: int) -> bool:
        return kv_tokens / max_kv_tokens >= self.crowded_kv_share

    def _offset_s(self, kv_tokens: int, max_kv_tokens: int) -> float:
        crowded = self._is_crowded(kv_tokens, max_kv_tokens)
        return (self.crowded_offset_steps if crowded else self.offset_steps) * STEP_S

    def _steps_of_holding(self, now: float, held: list[int]) -> int:
        """Further steps in which one prefill takes the whole budget and the same decodes are all held."""
        (left,) = self._to_prefill.values()
        if not len(held) == len(self.latest_start_s) == len(self._tbt_s) - 1:
            return 0
        self._chunk = self.token_budget
        further_steps = (left - 1) // self.token_budget
        if held:
            self._first_critical_s = min(self.latest_start_s.values())
            further_steps = min(further_steps, safe_steps_until(self._first_critical_s, now) - 1)
        return further_steps

    def _steps_of_serving_all(self, kv_tokens: int, max_kv_tokens: int) -> int:
        """Further steps, the first of which starts with `kv_tokens`, that serve every decode with the same offset."""
        growth = len(self._tbt_s)
        if not growth:
            return UNTIL_EVENT
        if growth > min(self.token_budget, self.decode_limit):
            return 0
        self._skipped_offset_s = self._offset_s(kv_tokens, max_kv_tokens)
        if self._is_crowded(kv_tokens, max_kv_tokens):
            return self._blocks.safe_ticks()
        further_steps = int(self.crowded_kv_share * max_kv_tokens - kv_tokens) // growth
        return min(further_steps, self._blocks.safe_ticks()) if self.blocks_grow else further_steps

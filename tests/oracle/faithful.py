"""The four schedulers of the published portability study that follow a real engine, with their block manager.

Source: the published study, src/robustbench (policies), after vLLM v0.1.0 (67d96c29), vLLM v0.4.2 (c7f2cf2b),
Sarathi (ceaa0660) and SLAI (5098a7ab).
"""

from __future__ import annotations

import math

from .engine import Action, Limits, View, Visible

BLOCK_TOKENS = 16
TBT_S_OF_CLASS = {
    "tight": 0.1,
    "interactive": 0.1,
    "critical": 0.1,
    "medium": 0.3,
    "standard": 0.3,
    "loose": 0.5,
    "batch": 0.5,
}


class BlockManager:
    """Blocks of 16 tokens; the watermark guards allocation, not growth."""

    def __init__(self, max_kv_tokens: int):
        self.total = max_kv_tokens // BLOCK_TOKENS
        self.watermark = int(0.01 * self.total)
        self.tokens: dict[int, int] = {}
        self.blocks: dict[int, int] = {}

    @staticmethod
    def need(tokens: int) -> int:
        return math.ceil(tokens / BLOCK_TOKENS)

    @property
    def free_blocks(self) -> int:
        return self.total - sum(self.blocks.values())

    def can_allocate(self, tokens: int) -> bool:
        return self.free_blocks - self.need(tokens) >= self.watermark

    def allocate(self, i: int, tokens: int) -> None:
        self.tokens[i] = tokens
        self.blocks[i] = self.need(tokens)

    def can_append(self, i: int) -> bool:
        return self.need(self.tokens[i] + 1) <= self.blocks[i] or self.free_blocks >= 1

    def append(self, i: int) -> None:
        self.tokens[i] += 1
        if self.need(self.tokens[i]) > self.blocks[i]:
            self.blocks[i] += 1

    def free(self, i: int) -> None:
        self.tokens.pop(i, None)
        self.blocks.pop(i, None)


class Faithful:
    """State of the four: blocks a request, and (not for vllm_faithful) the shadow prefill counter rho."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.manager = BlockManager(limits.max_kv_tokens)
        self.rho: dict[int, int] = {}

    def max_sequences(self, own: int) -> int:
        return min(own, self.limits.max_active_sequences)

    def forget(self, i: int) -> None:
        self.manager.free(i)
        self.rho.pop(i, None)

    def start(self, view: View) -> None:
        """Free what is no longer active. Every active request was admitted by this scheduler."""
        for i in list(self.manager.tokens):
            if i not in view.records:
                self.forget(i)
        assert set(view.active) == set(self.manager.tokens)

    def by_arrival(self, view: View) -> list[Visible]:
        return sorted(view.records.values(), key=lambda r: (r.arrival, r.id))

    def append_slot(self, r: Visible, rest: list[Visible], preempt: list[int]) -> bool:
        """Give r one more token; evict from the back of `rest` while it cannot, r itself at last."""
        while not self.manager.can_append(r.id):
            victim = rest.pop() if rest else r
            self.forget(victim.id)
            preempt.append(victim.id)
            if victim is r:
                return False
        self.manager.append(r.id)
        return True


class VllmFaithful(Faithful):
    def decide(self, view: View) -> Action:
        self.start(view)
        preempt: list[int] = []
        running = self.by_arrival(view)
        kept = 0
        while running:
            r = running.pop(0)
            if self.append_slot(r, running, preempt):
                kept += 1

        tokens, sequences = kept, kept
        admit: list[int] = []
        for r in view.waiting:
            if not self.manager.can_allocate(r.prompt + 1):
                break
            if tokens + r.prompt > 2560:
                break
            if sequences + 1 > self.max_sequences(256):
                break
            if not view.feasible(r):
                continue
            self.manager.allocate(r.id, r.prompt + 1)
            tokens += r.prompt
            sequences += 1
            view.pick(r, admit)
        return Action(admit=admit, preempt=preempt)


class VllmChunkedPrefillFaithful(Faithful):
    def decide(self, view: View) -> Action:
        self.start(view)
        preempt: list[int] = []
        running = self.by_arrival(view)
        tokens, sequences = 0, 0
        while running:
            r = running[0]
            left = max(0, 512 - tokens)
            want = min(1, left) if self.rho[r.id] == 0 else min(self.rho[r.id], left)
            if want == 0:
                break
            running.pop(0)
            if self.rho[r.id] == 0:
                if self.append_slot(r, running, preempt):
                    tokens += 1
                    sequences += 1
            else:
                tokens += want
                sequences += 1
                self.rho[r.id] -= want

        admit: list[int] = []
        for r in view.waiting:
            if not self.manager.can_allocate(r.prompt):
                break
            want = min(r.prompt, max(0, 512 - tokens))
            if want == 0 or sequences + 1 > self.max_sequences(256):
                break
            if not view.feasible(r):
                continue
            self.manager.allocate(r.id, r.prompt)
            self.rho[r.id] = r.prompt - want
            tokens += want
            sequences += 1
            view.pick(r, admit)
        return Action(admit=admit, preempt=preempt)


class SarathiFaithful(Faithful):
    def decide(self, view: View) -> Action:
        self.start(view)
        preempt: list[int] = []
        running = self.by_arrival(view)
        ready = [r for r in running if self.rho[r.id] == 0]
        filling = [r for r in running if self.rho[r.id] > 0]
        kept = 0
        while ready:
            r = ready.pop(0)
            if self.append_slot(r, ready, preempt):
                kept += 1

        tokens = kept
        for r in filling:
            c = min(self.rho[r.id], 512 - tokens)
            if c <= 0:
                continue
            self.rho[r.id] -= c
            tokens += c

        sequences = kept + len(filling)
        admit: list[int] = []
        for r in view.waiting:
            if not self.manager.can_allocate(r.prompt):
                break
            if sequences + 1 > self.max_sequences(128):
                break
            c = min(r.prompt, 512 - tokens)
            if c <= 0:
                break
            if not view.feasible(r):
                continue
            self.manager.allocate(r.id, r.prompt)
            self.rho[r.id] = r.prompt - c
            tokens += c
            sequences += 1
            view.pick(r, admit)
        return Action(admit=admit, preempt=preempt)


class SlaiFaithful(Faithful):
    def __init__(self, limits: Limits):
        super().__init__(limits)
        self.lst: dict[int, float] = {}  # latest schedulable time of a request's next decode

    def forget(self, i: int) -> None:
        super().forget(i)
        self.lst.pop(i, None)

    def tbt(self, r: Visible) -> float:
        return TBT_S_OF_CLASS.get(r.class_id, 0.5)

    def decide(self, view: View) -> Action:
        self.start(view)
        now = view.now
        theta = 5 if view.kv_tokens / self.limits.max_kv_tokens < 0.96 else 10

        active = [view.records[i] for i in view.active]
        decoding = [r for r in active if self.rho[r.id] == 0]
        filling = [r for r in active if self.rho[r.id] > 0]
        for r in decoding:
            if r.id not in self.lst:
                self.lst[r.id] = now + self.tbt(r) - theta * 0.001
        decoding.sort(key=lambda r: (self.lst[r.id], r.id))
        critical = [r for r in decoding if now >= self.lst[r.id]]
        non_critical = [r for r in decoding if now < self.lst[r.id]]
        served = critical[:128]
        tokens = len(served)

        for r in filling:
            c = min(self.rho[r.id], 512 - tokens)
            if c <= 0:
                continue
            self.rho[r.id] -= c
            tokens += c

        sequences = len(served) + len(non_critical) + len(filling)
        admit: list[int] = []
        for r in sorted(view.waiting, key=lambda r: (self.tbt(r), r.prompt, r.id)):
            if not self.manager.can_allocate(r.prompt):
                break
            if sequences + 1 > self.max_sequences(128):
                break
            c = min(r.prompt, 512 - tokens)
            if c <= 0:
                break
            if not view.feasible(r):
                continue
            self.manager.allocate(r.id, r.prompt)
            self.rho[r.id] = r.prompt - c
            tokens += c
            sequences += 1
            view.pick(r, admit)

        room, decodes = 512 - tokens, 128 - len(served)
        for r in non_critical:
            if room <= 0 or decodes <= 0:
                break
            served.append(r)
            room -= 1
            decodes -= 1

        for r in served:
            self.lst[r.id] = now + self.tbt(r) - theta * 0.001
        served_ids = {r.id for r in served}
        hold = [r.id for r in decoding if r.id not in served_ids]
        return Action(admit=admit, hold_decode=hold)

"""The 13 schedulers of the published portability study, literally, quirks included.

Each is called at every step with a View and returns an Action. Their time constants (1 ms a step) are their
own, as published, and do not follow the engine's clock.
Source: the published study, src/robustbench (policies).
"""

from __future__ import annotations

import math

from .engine import Action, Limits, View, Visible
from .faithful import SarathiFaithful, SlaiFaithful, VllmChunkedPrefillFaithful, VllmFaithful


def service_steps(r: Visible) -> float:
    """E, the estimated service in simulator steps."""
    return (0.5 * r.prompt) + (1.0 * r.predicted)


def laxity_s(r: Visible, now: float) -> float:
    return (r.deadline - now) - service_steps(r) * 0.001


class Greedy:
    """One pass over an ordered queue: pick what fits, skip what does not."""

    def __init__(self, limits: Limits):
        self.limits = limits

    def order(self, view: View) -> list[Visible]:
        raise NotImplementedError

    def acceptable(self, view: View, r: Visible) -> bool:
        return view.feasible(r)

    def decide(self, view: View) -> Action:
        admit: list[int] = []
        for r in self.order(view):
            if self.acceptable(view, r):
                view.pick(r, admit)
        return Action(admit=admit)


class Fifo(Greedy):
    def order(self, view):
        return list(view.waiting)


class Edf(Greedy):
    def order(self, view):
        return sorted(view.waiting, key=lambda r: r.deadline)


class LeastLaxityFirst(Greedy):
    """Subtracts steps from seconds, as published: in effect the largest estimated service goes first."""

    def order(self, view):
        return sorted(
            view.waiting,
            key=lambda r: ((r.deadline - view.now) - service_steps(r), r.deadline, -r.weight, r.id),
        )


class EstimatedServiceTimeFirst(Greedy):
    def order(self, view):
        return sorted(view.waiting, key=lambda r: (service_steps(r), r.deadline, -r.weight, r.id))


class WeightedFairShare(Greedy):
    def order(self, view):
        demand: dict[str, int] = {}
        served: dict[str, int] = {}
        for r in view.waiting:
            demand[r.class_id] = demand.get(r.class_id, 0) + 1
        for i in view.active:
            c = view.records[i].class_id
            served[c] = served.get(c, 0) + 1

        def score(r: Visible) -> float:
            share = demand[r.class_id] / max(1, served.get(r.class_id, 0) + 1)
            return share * r.weight / max(service_steps(r), 1e-9)

        return sorted(view.waiting, key=lambda r: (-score(r), r.arrival, r.id))


class KvConstrainedOnline(Greedy):
    def order(self, view):
        def key(r: Visible):
            laxity = laxity_s(r, view.now)
            return laxity > 0.25, (r.prompt + 0.25 * r.predicted) / max(r.weight, 1e-9), laxity, r.id

        return sorted(view.waiting, key=key)

    def acceptable(self, view, r):
        return view.feasible(r) and (
            (view.kv_tokens + r.prompt) / view.limits.max_kv_tokens <= 0.82 or laxity_s(r, view.now) <= 0.25
        )


class AdmissionControl(Greedy):
    """Its laxity filter is off in the study, so the order by laxity is all that is left."""

    def order(self, view):
        return sorted(
            view.waiting,
            key=lambda r: (laxity_s(r, view.now), -r.weight, service_steps(r) * 0.001, r.deadline, r.id),
        )


class VllmStyleTokenBudget:
    def __init__(self, limits: Limits):
        self.limits = limits

    def decide(self, view: View) -> Action:
        admit: list[int] = []
        n, kv = len(view.active), view.kv_tokens
        for r in sorted(view.waiting, key=lambda r: (r.predicted, r.arrival, r.id)):
            rounded = math.ceil(r.prompt / 16) * 16
            if (
                n + 1 <= self.limits.max_active_sequences
                and n + 1 <= self.limits.max_batch_tokens
                and kv + rounded <= self.limits.max_kv_tokens
            ):
                admit.append(r.id)
                n += 1
                kv += rounded
        return Action(admit=admit)


class ScorpioStyleSloGuard:
    def __init__(self, limits: Limits):
        self.limits = limits
        self.credit = 4.0

    def decide(self, view: View) -> Action:
        if not view.waiting:
            return Action()
        now = view.now
        self.credit = min(4.0, self.credit + 2.0)
        kv = view.kv_tokens / self.limits.max_kv_tokens
        dec = len(view.active) / self.limits.max_active_sequences
        ql = len(view.waiting) / self.limits.max_active_sequences

        candidates = [
            r for r in view.waiting if laxity_s(r, now) >= 0 and (r.deadline - now) - (0.5 * r.prompt * 0.001) >= 0
        ]
        if not candidates:
            return Action()
        mean_laxity = sum(laxity_s(r, now) for r in candidates) / len(candidates)
        guard = kv >= 0.65 or dec >= 0.70 or ql >= 3.0 or mean_laxity < 0
        if guard and kv >= 0.65:
            candidates = [r for r in candidates if r.predicted <= 256 or laxity_s(r, now) < 0.5]
            if not candidates:
                return Action()

        def key(r: Visible):
            laxity = laxity_s(r, now)
            score = 1 / max(laxity, 1e-9) + r.weight + 0.05 * (now - r.arrival)
            if guard:
                score -= 0.35 * r.predicted * dec
            return -score, laxity, -r.weight, r.arrival, r.id

        cap = max(1, int(self.credit)) if guard else None
        admit: list[int] = []
        for r in sorted(candidates, key=key):
            if cap is not None and len(admit) >= cap:
                break
            if view.feasible(r):
                view.pick(r, admit)
                if guard:
                    self.credit = max(0.0, self.credit - 1.0)
        return Action(admit=admit)


SCHEDULERS = {
    "fifo": Fifo,
    "edf": Edf,
    "least_laxity_first": LeastLaxityFirst,
    "estimated_service_time_first": EstimatedServiceTimeFirst,
    "weighted_fair_share": WeightedFairShare,
    "kv_constrained_online": KvConstrainedOnline,
    "vllm_faithful": VllmFaithful,
    "vllm_chunked_prefill_faithful": VllmChunkedPrefillFaithful,
    "sarathi_faithful": SarathiFaithful,
    "slai_faithful": SlaiFaithful,
    "admission_control": AdmissionControl,
    "vllm_style_token_budget": VllmStyleTokenBudget,
    "scorpio_style_slo_guard": ScorpioStyleSloGuard,
}

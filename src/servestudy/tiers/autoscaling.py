"""Autoscaling on freeness for normal priority, by the rules of the published study; and mended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from servestudy.tiers.freeness import freeness
from servestudy.tiers.llumlet import LlumletReplica


@dataclass(frozen=True)
class AutoscalingRules:
    """Defaults: as published. `mended`: drained replicas count neither in the signal nor as victims, and one stays."""

    interval_s: float = 1.0
    scale_in_above: float = 1.5
    scale_out_below: float = -0.5
    warm_up_s: float = 5.0
    cooldown_s: float = 10.0
    empty_pool_s: float = 30.0
    mended: bool = False


class Autoscaler:
    """Drains a replica when the mean freeness is high and takes it back when it is low; never more than at the start.

    As published the mean is over all replicas, drained ones with their huge negative freeness included, so that each
    scale-in is soon followed by a scale-out; and a victim may be one that drains already.
    """

    def __init__(self, replicas: Sequence[LlumletReplica], rules: AutoscalingRules) -> None:
        self.replicas, self.rules = replicas, rules
        self.pool: list[LlumletReplica] = []
        self.first_check_s: float | None = None
        self.last_in_s = self.last_out_s = self.last_empty_s = -math.inf
        self.drained_s = 0.0  # replica-seconds, by check
        self.scale_ins = self.scale_outs = 0

    def tick(self, now_s: float) -> None:
        rules = self.rules
        if self.first_check_s is None:
            self.first_check_s = now_s
        self.drained_s += rules.interval_s * sum(replica.draining for replica in self.replicas)
        counted = [replica for replica in self.replicas if not (rules.mended and replica.draining)]
        mean = sum(freeness(replica, None) for replica in counted) / len(counted)
        warm = now_s - self.first_check_s >= rules.warm_up_s
        if mean > rules.scale_in_above and warm and now_s - self.last_in_s >= rules.cooldown_s:
            self._scale_in(counted, now_s)
        elif mean < rules.scale_out_below and now_s - self.last_out_s >= rules.cooldown_s:
            self._scale_out(now_s)

    def _scale_in(self, candidates: Sequence[LlumletReplica], now_s: float) -> None:
        if self.rules.mended and len(candidates) == 1:
            return
        victim = min(candidates, key=lambda replica: replica.batch_size())
        victim.draining = True
        self.pool.append(victim)
        self.last_in_s = now_s
        self.scale_ins += 1

    def _scale_out(self, now_s: float) -> None:
        if self.pool:
            self.pool.pop().draining = False
            self.last_out_s = now_s
            self.scale_outs += 1
        elif now_s - self.last_empty_s >= self.rules.empty_pool_s:
            self.last_empty_s = self.last_out_s = now_s

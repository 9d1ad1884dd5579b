"""The rules of a run: every constant and quirk of the published study, each a switch; and the study's workloads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from servestudy.errors import UserError
from servestudy.tiers.lengths import FixedLengths, ZipfLengths
from servestudy.tiers.mixes import ROUND_ROBIN
from servestudy.tiers.workload import SHARED, Workload

PUBLISHED = "published"
MIGRATION = ("free", "off", "costed")
AUTOSCALER = ("published", "mended", "off")
NETWORK_BYTES_PER_S = 12.5e9  # 100 Gb/s
DOWNTIME_S = 0.025  # OSDI'24 Llumnix: 20 to 30 ms, nearly whatever the length


@dataclass(frozen=True)
class Rules:
    """Defaults: the study's latency sweep, as published."""

    replicas: int = 4
    total_blocks: int = 128
    max_num_seqs: int = 64
    max_batch_tokens: int = 2048
    max_sequence_tokens: int = 512
    """Orca's reservation for each request: the longest one of the sweep (the simulator's 4,096 exceed 128 blocks)."""
    time_limit_s: float = 60.0
    """A request that is not done by then is in no latency statistic; inf: run to completion."""
    streams: str = SHARED
    attention_clamp_seqs: int | None = 32
    decodes_hold_kv: bool = False
    batch_cap: bool = False
    queue_order: str = "tier"
    dispatch: str = "freeness"
    headroom: str = "exponential"
    headroom_share: float = 0.20
    headroom_whole_blocks: bool = True
    migration: str = "free"
    rebalance_interval_s: float = 0.05
    rebalance_gap: float = 0.3
    rebalance_trigger: str = "gap"
    rebalance_float_skip: bool = True
    wake_destination: bool = False
    autoscaler: str = "published"

    def __post_init__(self) -> None:
        for name, allowed in (("migration", MIGRATION), ("autoscaler", AUTOSCALER)):
            if getattr(self, name) not in allowed:
                raise UserError(f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        for name in ("replicas", "total_blocks", "max_num_seqs", "max_batch_tokens", "max_sequence_tokens"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; allowed: 1 or more")
        for name in ("time_limit_s", "rebalance_interval_s"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}; allowed: above 0")


OURS_ONLY = frozenset(
    (
        *("decodes_hold_kv", "batch_cap", "queue_order", "dispatch"),
        *("headroom", "headroom_share", "headroom_whole_blocks"),
        *("migration", "rebalance_interval_s", "rebalance_gap", "rebalance_trigger", "rebalance_float_skip"),
        *("wake_destination", "autoscaler"),
    )
)
"""Rules that only the study's own scheduler reads: a baseline is the same under any of them."""


@dataclass(frozen=True)
class Preset:
    """A workload of the study, the rules that it was run under, and the mixes and numbers of requests."""

    workload: Workload
    rules: Rules
    mixes: tuple[str, ...]
    volumes: tuple[int, ...]


_SCRIPTS = Rules(total_blocks=7424, max_sequence_tokens=4096, time_limit_s=math.inf, migration="off")

_SWEEP_MIXES = ("uniform", "gaussian_v2", "enterprise_v2", "power_law_v2")

PRESETS = {
    "burst": Preset(
        Workload(ZipfLengths(), requests_per_s=1250.0, requests=10_000), Rules(), _SWEEP_MIXES, (10_000, 15_000)
    ),
    "fixed": Preset(Workload(FixedLengths(), requests_per_s=10.0, requests=800), _SCRIPTS, (ROUND_ROBIN,), (800,)),
}
"""`burst`: the latency sweep. `fixed`: the comparison scripts with K; their result files record no parameters, and the
number and rate of requests are those that reproduce the files."""


def with_settings(rules: Rules, settings: Iterable[str]) -> Rules:
    """Rules with `name=value` settings applied; `none` and `inf` are values.

    Raises UserError that names the setting and what is allowed.
    """
    known = {field.name: field.type for field in fields(Rules)}
    changes = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            raise UserError(f"setting {setting!r}: unknown name {name!r}; allowed: {', '.join(known)}")
        changes[name] = _value(setting, text, known[name])
    return replace(rules, **changes)


def _value(setting: str, text: str, kind: str) -> bool | int | float | str | None:
    if kind == "bool":
        if text not in ("true", "false"):
            raise UserError(f"setting {setting!r}: found {text!r}; allowed: true, false")
        return text == "true"
    if kind == "str":
        return text
    if text == "none" and kind.endswith("None"):
        return None
    try:
        return float(text) if kind == "float" else int(text)
    except ValueError:
        raise UserError(f"setting {setting!r}: found {text!r}; allowed: a number ({kind})") from None

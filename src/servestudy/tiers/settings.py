"""The rules of a run: every constant and quirk of the published study, each a switch; and the study's workloads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from servestudy.errors import UserError
from servestudy.tiers.freeness import headroom_blocks
from servestudy.tiers.lengths import FixedLengths, ZipfLengths
from servestudy.tiers.migration import MigrationRules
from servestudy.tiers.mixes import ROUND_ROBIN
from servestudy.tiers.workload import SEPARATE, SHARED, Workload

PUBLISHED = "published"
MIGRATION = ("free", "off", "costed")
ENGINES = ("study", "serving")
PREFILL_ATTENTION = ("quadratic", "arithmetic")
AUTOSCALER = ("published", "mended", "off")
NETWORK_BYTES_PER_S = 12.5e9  # 100 Gb/s
DOWNTIME_S = 0.025  # OSDI'24 Llumnix: 20 to 30 ms, nearly whatever the length


HONEST = {"decodes_hold_kv": True, "batch_cap": True, "attention_clamp_seqs": None}
"""What the serving engine does whatever the system, so that on it these are no switches."""


@dataclass(frozen=True)
class Rules:
    """Defaults: the study's latency sweep, as published."""

    engine: str = "study"
    """study: batches as each system's scheduler in the study composes them; serving: the engine of both studies."""
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
    decode_attention: float = 1.0
    """Factor on what the attention of decodes takes: how much a single percentile owes to the phase of iterations."""
    prefill_attention: str = "quadratic"
    """Reading of the time model's fit, see engine/time_model.py; arithmetic does not overprice long prompts."""
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
    freeness_per_request: bool = True
    """Freeness is divided by the requests in flight; off: B = 1, as in an older revision of the study."""
    aging_s: float = math.inf
    """Serving engine: a tier waits like an arrival this much later for each tier above it; inf: strict tiers."""
    whole_prompts: bool = False
    """Serving engine: prompts of ours are not cut at the token budget."""

    def __post_init__(self) -> None:
        choices = {
            "engine": ENGINES,
            "prefill_attention": PREFILL_ATTENTION,
            "migration": MIGRATION,
            "autoscaler": AUTOSCALER,
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        for name in ("replicas", "total_blocks", "max_num_seqs", "max_batch_tokens", "max_sequence_tokens"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; allowed: 1 or more")
        for name in ("time_limit_s", "rebalance_interval_s", "aging_s", "decode_attention"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}; allowed: above 0")
        if self.engine == "serving":
            for name, value in HONEST.items():
                if getattr(self, name) != value:
                    raise UserError(f"{name} is {getattr(self, name)}; the serving engine allows only {value}")
        elif not math.isinf(self.aging_s) or self.whole_prompts:
            raise UserError("aging_s and whole_prompts are rules of the serving engine: add engine=serving")


OURS_ONLY = frozenset(
    (
        *("decodes_hold_kv", "batch_cap", "queue_order", "dispatch"),
        *("headroom", "headroom_share", "headroom_whole_blocks"),
        *("migration", "rebalance_interval_s", "rebalance_gap", "rebalance_trigger", "rebalance_float_skip"),
        *("wake_destination", "autoscaler", "freeness_per_request", "aging_s", "whole_prompts"),
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


SERVING = Rules(
    engine="serving",
    prefill_attention="arithmetic",
    total_blocks=7424,
    time_limit_s=math.inf,
    streams=SEPARATE,
    **HONEST,
    headroom_whole_blocks=False,
    migration="costed",
    rebalance_float_skip=False,
    wake_destination=True,
    autoscaler="off",
)
"""The serving variant: one engine for every system, moves that cost, run to completion, paired random streams."""

_SCRIPTS = Rules(total_blocks=7424, max_sequence_tokens=4096, time_limit_s=math.inf, migration="off")

_OF_SCRIPTS = Workload(FixedLengths(), requests_per_s=10.0, requests=800)

_SWEEP_MIXES = ("uniform", "gaussian_v2", "enterprise_v2", "power_law_v2")

PRESETS = {
    "burst": Preset(
        Workload(ZipfLengths(), requests_per_s=1250.0, requests=10_000), Rules(), _SWEEP_MIXES, (10_000, 15_000)
    ),
    "serving": Preset(Workload(ZipfLengths(), 1250.0, 10_000), SERVING, _SWEEP_MIXES, (10_000,)),
    "fixed": Preset(_OF_SCRIPTS, _SCRIPTS, (ROUND_ROBIN,), (800,)),
    "fixed_serving": Preset(_OF_SCRIPTS, replace(SERVING, streams=SHARED, migration="off"), (ROUND_ROBIN,), (800,)),
}
"""`burst`: the latency sweep. `fixed`: the comparison scripts with K; their result files record no parameters, and the
number and rate of requests are those that reproduce the files. `fixed_serving`: the same requests, serving engine."""


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


def headroom_of(rules: Rules, tiers: int) -> list[float]:
    """Headroom of each tier in blocks."""
    return headroom_blocks(
        tiers, rules.total_blocks, rules.headroom, rules.headroom_share, whole_blocks=rules.headroom_whole_blocks
    )


def migration_rules(rules: Rules) -> MigrationRules:
    costed = rules.migration == "costed"
    return MigrationRules(
        interval_s=rules.rebalance_interval_s,
        trigger=rules.rebalance_trigger,
        least_gap=rules.rebalance_gap,
        float_skip=rules.rebalance_float_skip,
        wake_destination=rules.wake_destination,
        bytes_per_s=NETWORK_BYTES_PER_S if costed else 0.0,
        downtime_s=DOWNTIME_S if costed else 0.0,
    )

"""Theme: numbers that no run computes. They are read from the code and the settings that the run uses."""

from collections.abc import Iterator
from pathlib import Path

from servestudy.audit.rules import PUBLISHED
from servestudy.calibration import HALVINGS
from servestudy.engine.fixed_step import DRAIN_STEPS, PUBLISHED_LIMITS
from servestudy.engine.fixed_step_records import STEP_S
from servestudy.engine.replica_config import BLOCK_TOKENS
from servestudy.paper.found import Found
from servestudy.paper.wording import listed, number, percent, spaced
from servestudy.schedulers.published.vllm_faithful import VllmFaithful
from servestudy.serving_settings import load_serving_settings
from servestudy.statistics.bootstrap import FALSE_DISCOVERY_RATE, RESAMPLES
from servestudy.statistics.reversal_rules import PRACTICAL_MARGIN
from servestudy.statistics.sample_complexity import N_DRAWS, THRESHOLD
from servestudy.tiers.gains import COVERAGE
from servestudy.tiers.settings import Rules
from servestudy.windows.sampling import WINDOW_REQUESTS
from servestudy.workload import REGIONS

Definition = tuple[str, str, str, str]
"""Key, text, meaning, and the module below `servestudy` or the file that sets it."""


def add(found: Found, serving: Path) -> None:
    """Values `set.<key>`; `serving` is the file with the settings of the serving model."""
    for key, text, meaning, place in (*_portability(), *_statistics(), *_serving(serving), *_tiers()):
        found.definition(key, text, meaning, place)


def _portability() -> Iterator[Definition]:
    synthesis, rules = PUBLISHED.synthesis, "audit.rules"
    yield "window", number(WINDOW_REQUESTS, 0), "requests of a window", "windows.sampling"
    loads = listed([f"{spaced(name)} ({number(load, 1)})" for name, load in REGIONS.items()])
    yield "regions", loads, "load regions, as multiples of the reference load", "workload"
    yield "noise", percent(synthesis.noise_cv), "variation of the prediction noise", rules
    yield "slack", number(synthesis.slack_multiplier, 0), "service times from arrival to deadline", rules
    late = percent(PUBLISHED.calibration.threshold, 1)
    yield "late", late, "late requests at the reference load, published model", rules
    yield "halvings", number(HALVINGS, 0), "halvings of the search for the reference load", "calibration"
    yield "step", f"{number(1000 * STEP_S, 0)} ms", "step of the published model", "engine.fixed_step_records"
    limits = "schedulers.protocol"
    yield "slots", number(PUBLISHED_LIMITS.max_num_seqs, 0), "sequence slots, published model", limits
    yield "kv", number(PUBLISHED_LIMITS.max_kv_tokens, 0), "KV tokens, published model", limits
    cap = number(VllmFaithful().max_num_batched_tokens, 0)
    closes = "batched prompt tokens at which vllm_faithful closes admission"
    yield "cap", cap, closes, "schedulers.published.vllm_faithful"
    yield "drain", number(DRAIN_STEPS, 0), "steps after which a run that never empties ends", "engine.fixed_step"


def _statistics() -> Iterator[Definition]:
    margin = "margin of a practical reversal, in both sources"
    yield "margin", percent(PRACTICAL_MARGIN), margin, "statistics.reversal_rules"
    yield "resamples", number(RESAMPLES, 0), "resamples of an interval", "statistics.bootstrap"
    yield "fdr", percent(FALSE_DISCOVERY_RATE), "false discovery rate", "statistics.bootstrap"
    yield "draws", number(N_DRAWS, 0), "draws of windows for each number", "statistics.sample_complexity"
    recovery = "draws in which a ranking must be recovered"
    yield "recovery", percent(THRESHOLD), recovery, "statistics.sample_complexity"
    yield "coverage", percent(COVERAGE), "coverage of intervals", "tiers.gains"


def _serving(file: Path) -> Iterator[Definition]:
    settings, place = load_serving_settings(file), file.as_posix()
    replica, slo = settings["replica"], settings["slo"]
    yield "profile", spaced(replica["profile"]), "profile of the serving model", place
    yield "budget", number(replica["max_num_batched_tokens"], 0), "tokens of an iteration", place
    yield "seqs", number(replica["max_num_seqs"], 0), "sequences of a replica, serving model", place
    yield "blocks", number(replica["kv_blocks"], 0), "KV blocks of a replica, serving model", place
    yield "block", number(BLOCK_TOKENS, 0), "tokens of a KV block", "engine.replica_config"
    yield "attainment", percent(slo["attainment"]), "attainment at the reference load, serving model", place
    classes = [
        f"{name} ({percent(values['share'])}; {number(values['ttft_s'], 1)} s, {number(values['tbt_s'], 1)} s)"
        for name, values in slo["classes"].items()
    ]
    yield "classes", listed(classes), "classes: share; targets for first and further tokens", place


def _tiers() -> Iterator[Definition]:
    rules, place = Rules(), "tiers.settings"
    yield "replicas", number(rules.replicas, 0), "replicas of the cluster", place
    yield "tier_blocks", number(rules.total_blocks, 0), "KV blocks of a replica in the study's sweep", place
    yield "tier_limit", f"{number(rules.time_limit_s, 0)} s", "simulated time limit of the study's sweep", place

"""Schedulers by name."""

from importlib import import_module

from servestudy.errors import UserError
from servestudy.schedulers.protocol import Scheduler

PUBLISHED = (
    "fifo",
    "edf",
    "least_laxity_first",
    "estimated_service_time_first",
    "weighted_fair_share",
    "kv_constrained_online",
    "vllm_faithful",
    "vllm_chunked_prefill_faithful",
    "sarathi_faithful",
    "slai_faithful",
    "admission_control",
    "vllm_style_token_budget",
    "scorpio_style_slo_guard",
)
"""The published panel in the study's order. What each stands for is written in config/schedulers.yaml."""


def make_scheduler(name: str) -> Scheduler:
    """A new scheduler of the published panel with its default parameters."""
    if name not in PUBLISHED:
        raise UserError(f"scheduler {name!r} is unknown; known are {', '.join(PUBLISHED)}")
    module = import_module(f"servestudy.schedulers.published.{name}")
    return getattr(module, "".join(word.capitalize() for word in name.split("_")))()

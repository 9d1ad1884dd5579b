"""The rules of the published model that the audit can change, as plain data. The defaults are the published ones."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class SynthesisRules:
    """How the fields that a trace lacks are made up.

    noise_cv: coefficient of variation of the log-normal prediction noise; 0 predicts perfectly.
    noise_per_source: whether the noise depends on the source, not on the window number alone.
    noise_draw: another number is another draw of the noise.
    max_predicted_tokens: cap of the predicted output.
    deadline_from_true_output: whether the deadline is computed from the true output.
    slack_multiplier, seconds_per_prompt_token, seconds_per_output_token: the slack is the multiplier times the costs.
    classes: classes with their weight and their share of the requests; none: one class of weight 1.
    spread_whole_seconds: whether arrivals of a trace in whole seconds are spread evenly within their second.
    """

    noise_cv: float = 0.2
    noise_per_source: bool = False
    noise_draw: int = 0
    max_predicted_tokens: float = 4096
    deadline_from_true_output: bool = False
    slack_multiplier: float = 20
    seconds_per_prompt_token: float = 0.0004
    seconds_per_output_token: float = 0.02
    classes: tuple[tuple[str, float, float], ...] = ()
    spread_whole_seconds: bool = False


@dataclass(frozen=True)
class ScalingRules:
    """What a load factor divides: the gaps between arrivals, the slack before deadlines, or both."""

    divides_gaps: bool = True
    divides_slack: bool = True


@dataclass(frozen=True)
class EngineRules:
    """Rules of the fixed-step engine.

    drain_steps: a run that never empties ends when this many steps have begun since the last arrival.
    exact_idle_jump: whether an idle replica wakes in the step of the arrival; published: up to one step before.
    prefill: free, decode_protected (decodes first, the rest of the budget prefills), or shared_contention (one budget
        in order of arrival).
    prefill_cost: budget that one prompt token takes.
    prefill_chunk: budget that one request gets in a step at most.
    step_budget: budget of a step, where prefill is not free.
    kv_full: ignored, or what happens to the last admitted request when KV would pass the capacity: recompute (it goes
        back to the queue and loses its tokens) or swap (it keeps them and returns when there is room).
    batch_slowdown, kv_slowdown: a step takes 1 ms * (1 + batch_slowdown * share of slots + kv_slowdown * share of KV).
    """

    drain_steps: int = 50_000
    exact_idle_jump: bool = False
    prefill: str = "free"
    prefill_cost: float = 1.0
    prefill_chunk: float = 512
    step_budget: int = 4096
    kv_full: str = "ignored"
    batch_slowdown: float = 0.0
    kv_slowdown: float = 0.0

    @property
    def varies_step_time(self) -> bool:
        return bool(self.batch_slowdown or self.kv_slowdown)

    @property
    def keeps_the_published_engine(self) -> bool:
        """Whether the published engine, which knows drain and idle jump alone, can run them."""
        return self.prefill == "free" and self.kv_full == "ignored" and not self.varies_step_time

    @property
    def kv_full_alone(self) -> bool:
        """Whether they differ from what that engine can run in `kv_full` only."""
        return self.prefill == "free" and not self.varies_step_time


@dataclass(frozen=True)
class CalibrationRules:
    """What the reference load is.

    method: bisection; first_crossing (the lowest load of a fine grid that violates); offered_load (the load at which
        the decodes of the window, one token a step, just fill the slots).
    scheduler: whose violations count.
    threshold: share of late requests that is too much.
    """

    method: str = "bisection"
    scheduler: str = "fifo"
    threshold: float = 0.005


@dataclass(frozen=True)
class MetricRules:
    """duration: where the simulated duration ends: start_of_last_step, end_of_last_step or last_completion."""

    duration: str = "start_of_last_step"


@dataclass(frozen=True)
class Rules:
    """All rules of a run. `parameters` and `engine_changes` are by scheduler: changed parameters of its class, and
    changed fields of EngineRules that hold for it alone."""

    synthesis: SynthesisRules = SynthesisRules()
    scaling: ScalingRules = ScalingRules()
    engine: EngineRules = EngineRules()
    calibration: CalibrationRules = CalibrationRules()
    metrics: MetricRules = MetricRules()
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    engine_changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def engine_for(self, scheduler: str) -> EngineRules:
        """The engine rules that hold for a scheduler."""
        changes = self.engine_changes.get(scheduler)
        return replace(self.engine, **changes) if changes else self.engine

    def parameters_of(self, scheduler: str) -> Mapping[str, Any]:
        """Changed parameters of a scheduler's class, by name."""
        return self.parameters.get(scheduler, {})


PUBLISHED = Rules()
NO_LIMIT = math.inf

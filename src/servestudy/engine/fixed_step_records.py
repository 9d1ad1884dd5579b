"""What a fixed-step run records: outcome and telemetry; under corrected rules also steps of unequal length."""

from dataclasses import dataclass, field

import numpy as np

from servestudy.schedulers.protocol import ReplicaLimits

STEP_S = 0.001


@dataclass(frozen=True)
class Telemetry:
    """Counters over executed steps; steps skipped while the replica was idle do not count."""

    queue_depth_mean: float
    queue_depth_max: int
    batch_saturation_mean: float
    batch_saturation_max: float
    kv_occupancy_mean: float
    kv_occupancy_max: float
    admission_control_activations: int
    preemption_or_reorder_events: int
    prefill_decode_contention_fraction: float
    token_budget_saturation_fraction: float
    n_steps: int


@dataclass(frozen=True)
class Outcome:
    """What happened to the requests of one run. Arrays have one entry a completed request, in completion order:
    by step, and within a step in admission order. A step's tokens are stamped at its end."""

    completed_ids: np.ndarray
    first_token_step: np.ndarray
    completion_step: np.ndarray
    last_step: int
    telemetry: Telemetry
    rejected_ids: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def first_token_s(self) -> np.ndarray:
        return (self.first_token_step + 1) * STEP_S

    @property
    def completion_s(self) -> np.ndarray:
        return (self.completion_step + 1) * STEP_S

    @property
    def sim_duration_s(self) -> float:
        """Start (not end) of the last executed step, as the study defines it."""
        return self.last_step * STEP_S


@dataclass(frozen=True)
class TimedOutcome(Outcome):
    """An outcome with steps of unequal length: when each starts and ends (s)."""

    step_start_s: np.ndarray
    step_end_s: np.ndarray

    @property
    def first_token_s(self) -> np.ndarray:
        return self.step_end_s[self.first_token_step]

    @property
    def completion_s(self) -> np.ndarray:
        return self.step_end_s[self.completion_step]

    @property
    def sim_duration_s(self) -> float:
        return float(self.step_start_s[self.last_step])


@dataclass
class StepCounters:
    """Sums and maxima over executed steps, as `fixed_step` has them."""

    n_steps: int = 0
    queue_sum: int = 0
    queue_max: int = 0
    active_sum: int = 0
    active_max: int = 0
    kv_sum: int = 0
    kv_max: int = 0
    activations: int = 0
    contended: int = 0
    saturated: int = 0

    def all_but_last(
        self, steps: int, waiting: int, left_waiting: int, running: int, kv_tokens: int, growth: int, slots: int
    ) -> None:
        """The queue of all `steps`, and batch and KV of all but the last, in which requests may complete."""
        repeats = steps - 1
        self.n_steps += steps
        self.queue_sum += waiting + left_waiting * repeats
        self.queue_max = max(self.queue_max, waiting, left_waiting if repeats else 0)
        if repeats:
            if running < slots:
                self.activations += left_waiting * repeats
            self.active_sum += running * repeats
            self.active_max = max(self.active_max, running)
            self.kv_sum += kv_tokens * repeats + growth * (repeats * steps // 2)
            self.kv_max = max(self.kv_max, kv_tokens + growth * repeats)

    def last(self, running: int, kv_tokens: int) -> None:
        """Batch and KV at the end of the last step."""
        self.active_sum += running
        self.active_max = max(self.active_max, running)
        self.kv_sum += kv_tokens
        self.kv_max = max(self.kv_max, kv_tokens)

    def telemetry(self, limits: ReplicaLimits, preemptions: int) -> Telemetry:
        return Telemetry(
            queue_depth_mean=self.queue_sum / self.n_steps,
            queue_depth_max=self.queue_max,
            batch_saturation_mean=self.active_sum / limits.max_num_seqs / self.n_steps,
            batch_saturation_max=self.active_max / limits.max_num_seqs,
            kv_occupancy_mean=self.kv_sum / limits.max_kv_tokens / self.n_steps,
            kv_occupancy_max=self.kv_max / limits.max_kv_tokens,
            admission_control_activations=self.activations,
            preemption_or_reorder_events=preemptions,
            prefill_decode_contention_fraction=self.contended / self.n_steps,
            token_budget_saturation_fraction=self.saturated / self.n_steps,
            n_steps=self.n_steps,
        )

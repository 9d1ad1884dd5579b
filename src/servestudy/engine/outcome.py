"""What a run of the serving engine yields, under the names that metrics.py reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from servestudy.engine.decodes import Cohort
from servestudy.engine.fixed_step_records import Telemetry
from servestudy.schedulers.protocol import Request


@dataclass(slots=True, eq=False)
class Progress:
    """A request on a replica: what the scheduler knows of it, its true length, and how far it is.

    kv_tokens: KV tokens that it holds while it does not grow; for a waiting one, that it will hold when admitted.
    prefill_left: those of them that it has yet to prefill.
    made: output tokens so far; stale while it decodes.
    cohort: whose decodes it is or will be one of; its KV tokens while it decodes are `kv_offset` plus that one's ticks.
    due: while it decodes, (tick of its last token, admission order, itself), its entry in the cohort's heap.
    """

    request: Request
    request_id: int
    arrival_s: float
    output_tokens: int
    kv_tokens: int
    prefill_left: int
    made: int = 0
    order: int = -1
    cohort: Cohort | None = None
    due: tuple | None = None
    kv_offset: int = 0
    admission_s: float = -1.0
    first_token_s: float = -1.0
    first_token_step: int = -1
    completion_s: float = -1.0
    completion_step: int = -1
    preemptions: int = 0


@dataclass(slots=True)
class Counters:
    """Sums and maxima over iterations, and counts, from which Telemetry is made."""

    queue_sum: int = 0
    queue_max: int = 0
    running_sum: int = 0
    running_max: int = 0
    kv_token_sum: int = 0
    kv_token_max: int = 0
    left_waiting: int = 0
    mixed: int = 0
    full: int = 0

    def telemetry(self, n_steps: int, preemptions: int, max_num_seqs: int, max_kv_tokens: int) -> Telemetry:
        """Means over `n_steps` iterations; 0 if there were none."""
        n = max(n_steps, 1)
        return Telemetry(
            queue_depth_mean=self.queue_sum / n,
            queue_depth_max=self.queue_max,
            batch_saturation_mean=self.running_sum / max_num_seqs / n,
            batch_saturation_max=self.running_max / max_num_seqs,
            kv_occupancy_mean=self.kv_token_sum / max_kv_tokens / n,
            kv_occupancy_max=self.kv_token_max / max_kv_tokens,
            admission_control_activations=self.left_waiting,
            preemption_or_reorder_events=preemptions,
            prefill_decode_contention_fraction=self.mixed / n,
            token_budget_saturation_fraction=self.full / n,
            n_steps=n_steps,
        )


@dataclass(frozen=True)
class Outcome:
    """What happened to the requests of one run.

    Arrays have one entry a completed request, in completion order: by iteration, and within one in admission order.
    Steps are indices of iterations; an iteration's tokens are stamped at its end. `admission_s` and `first_token_s` are
    those of the first time, whatever preemptions came later.

    rejected_ids: turned away by the scheduler, or on arrival as too long for the KV cache.
    waiting_ids, running_ids: unfinished requests at the end of the run, in queue and in admission order.
    sim_duration_s: end of the last iteration. Counters of `telemetry` are taken in each iteration: the queue before its
    admissions, the running requests and their KV tokens at its end before the completed ones leave.
    """

    completed_ids: np.ndarray
    admission_s: np.ndarray
    first_token_step: np.ndarray
    first_token_s: np.ndarray
    completion_step: np.ndarray
    completion_s: np.ndarray
    preemptions: np.ndarray
    rejected_ids: tuple[int, ...]
    waiting_ids: tuple[int, ...]
    running_ids: tuple[int, ...]
    last_step: int
    sim_duration_s: float
    telemetry: Telemetry


def completed_columns(completed: Sequence[Progress]) -> dict[str, np.ndarray]:
    """The arrays of an Outcome, by name."""

    def array(name: str, dtype: type) -> np.ndarray:
        return np.fromiter(map(attrgetter(name), completed), dtype, len(completed))

    columns = {name: array(name, np.int64) for name in ("first_token_step", "completion_step", "preemptions")}
    columns |= {name: array(name, np.float64) for name in ("admission_s", "first_token_s", "completion_s")}
    return columns | {"completed_ids": array("request_id", np.int64)}

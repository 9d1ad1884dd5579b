"""The serving model of a run: its settings, the requests of a window, the load, and a run of one cell."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from servestudy.engine.iteration import ReplicaConfig, replica_limits, run
from servestudy.engine.outcome import Outcome
from servestudy.engine.time_model import PROFILES
from servestudy.engine_model import Calibration
from servestudy.errors import UserError
from servestudy.metrics import cell_metrics, slo_violation_rate
from servestudy.schedulers.protocol import Scheduler
from servestudy.schedulers.registry import make_scheduler
from servestudy.schedulers.serving.fcfs import Fcfs
from servestudy.serving_settings import SETTINGS, load_serving_settings
from servestudy.serving_workload import SloClass, serving_workload
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import Workload, rescale

REPEATS = 3
OCTAVES = 6
HALVINGS = 12
"""The bracket of 12 octaves is narrowed to 0.2 %."""


@dataclass(frozen=True)
class ServingModel:
    """One replica and what its users ask of it."""

    replica: ReplicaConfig
    classes: Mapping[str, SloClass]
    scales_with_load: bool
    attainment: float
    name: str = "serving"

    def noise_seed(self, window: FrozenWindow) -> None:
        """The stream of a window's noise has its name, not a number."""

    def workload(self, window: FrozenWindow) -> Workload:
        """The unscaled requests of a window."""
        return serving_workload(window, self.classes)

    def scaled(self, workload: Workload, load_factor: float) -> Workload:
        """Divide the gaps between arrivals by `load_factor`; targets stay, unless they scale with the load."""
        return rescale(workload, load_factor, slack_divisor=load_factor if self.scales_with_load else 1.0)

    def scheduler(self, name: str) -> Scheduler:
        """A new scheduler of that name."""
        return make_scheduler(name, self.name)

    def run(self, scaled: Workload, scheduler: Scheduler, name: str = "", step_by_step: bool = False) -> Outcome:
        """Simulate; `name` is the scheduler's, and no scheduler has rules of its own here."""
        return run(scaled.requests(), scaled.output_tokens.tolist(), scheduler, self.replica, step_by_step)

    def metrics(self, outcome: Outcome, scaled: Workload) -> dict[str, float | int]:
        """Metrics and telemetry of one run on a scaled window, by name."""
        return cell_metrics(outcome, scaled) | asdict(outcome.telemetry)

    def capacity(self, workload: Workload) -> float:
        """Requests a second that first come first served sustains on this mix of requests.

        The window is put in three times over, all at time 0; the rate is that of the middle third of completions,
        without filling and draining. Requests beyond the KV capacity are rejected and do not count.
        """
        served = np.tile(np.arange(len(workload)), REPEATS)
        backlog = Workload(
            arrival_s=np.zeros(len(served)),
            prompt_tokens=workload.prompt_tokens[served],
            output_tokens=workload.output_tokens[served],
            predicted_output_tokens=workload.predicted_output_tokens[served],
            deadline_s=np.full(len(served), math.inf),
            weight=workload.weight[served],
        )
        completion_s = self.run(backlog, Fcfs()).completion_s
        third = len(completion_s) // REPEATS
        if third < 1:
            raise UserError("no request of the window fits into the replica's KV cache: raise replica.kv_blocks")
        return third / float(completion_s[2 * third - 1] - completion_s[third - 1])

    def calibrate(self, window: FrozenWindow) -> Calibration:
        """The load up to which first come first served keeps the settings' share of requests on time.

        The study asks for the first late request; with targets in seconds that is a matter of one long prompt, so the
        rule here is the goodput of DistServe (Zhong et al., OSDI 2024): attainment of 90 %. What is late even at the
        lowest load, such as a long prompt of a class that asks for its first token soon, does not count. A bisection in
        a bracket around the load that equals the capacity.

        Raises UserError if all requests arrive at once: such a window has no rate.
        """
        workload = self.workload(window)
        span_s = float(workload.arrival_s[-1])
        if not span_s > 0:
            raise UserError(f"window {window.window_id}: all requests arrive at one time, so it has no arrival rate")
        capacity = self.capacity(workload)
        at_capacity = math.log2(capacity * span_s / (len(workload) - 1))
        low, high = at_capacity - OCTAVES, at_capacity + OCTAVES
        factors: list[float] = []
        rates: list[float] = []

        def violates(log2_factor: float) -> bool:
            factors.append(2.0**log2_factor)
            scaled = self.scaled(workload, factors[-1])
            rates.append(slo_violation_rate(self.run(scaled, Fcfs()), scaled))
            return 1 - rates[-1] < self.attainment * (1 - rates[0])

        violates(low)
        if violates(high):
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                if violates(middle):
                    high = middle
                else:
                    low = middle
            high = (low + high) / 2
        return Calibration(2.0**high, factors, rates, capacity)


def load_serving_model(path: Path | str = SETTINGS) -> ServingModel:
    """The model that a settings file describes; raises UserError that lists all its problems, a line each."""
    settings = load_serving_settings(path)
    replica, slo = settings["replica"], settings["slo"]
    time_model = PROFILES[replica["profile"]]
    if replica["prefill_attention"] == "arithmetic":
        time_model = time_model.with_arithmetic_attention()
    config = ReplicaConfig(
        limits=replica_limits(replica["kv_blocks"], replica["max_num_seqs"], replica["max_num_batched_tokens"]),
        time_model=time_model,
        preemption=replica["preemption"],
        drain_s=replica["drain_s"],
    )
    classes = {name: SloClass(**values) for name, values in slo["classes"].items()}
    return ServingModel(config, classes, slo["scales_with_load"], slo["attainment"])

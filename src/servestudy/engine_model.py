"""What the two engine models have in common: requests of a window, load, scheduler, run and metrics."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from servestudy.schedulers.protocol import Scheduler
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import Workload

if TYPE_CHECKING:
    from servestudy.metrics import Outcome


@dataclass(frozen=True)
class Calibration:
    """`lambda_ref`, and the violation curve: each load factor that was tried with the share of late requests there."""

    lambda_ref: float
    load_factors: list[float]
    violation_rates: list[float]
    capacity_rps: float = math.nan


class EngineModel(Protocol):
    """`servestudy.published_model` and `servestudy.serving_model` each have one."""

    @property
    def name(self) -> str:
        """published or serving."""

    def noise_seed(self, window: FrozenWindow) -> int | None:
        """Seed of the window's prediction noise; None if its stream has a name instead."""

    def workload(self, window: FrozenWindow) -> Workload:
        """The unscaled requests of a window."""

    def calibrate(self, window: FrozenWindow) -> Calibration:
        """The reference load of a window."""

    def scaled(self, workload: Workload, load_factor: float) -> Workload:
        """The requests at a load factor."""

    def scheduler(self, name: str) -> Scheduler:
        """A new scheduler of that name; raises UserError if the model has none."""

    def run(self, scaled: Workload, scheduler: Scheduler, name: str, step_by_step: bool = False) -> "Outcome":
        """Simulate; `name` is the scheduler's."""

    def metrics(self, outcome: "Outcome", scaled: Workload) -> dict[str, float | int]:
        """Metrics and telemetry of one run on a scaled window, by name."""

"""The published model under given rules: the requests of a window, the load, and a run of one cell."""

from dataclasses import asdict, dataclass

from servestudy.audit.rules import PUBLISHED, Rules
from servestudy.engine.fixed_step import MODEL
from servestudy.engine.fixed_step_corrected import run_with_rules
from servestudy.engine.fixed_step_records import STEP_S, Outcome
from servestudy.engine_model import Calibration
from servestudy.metrics import cell_metrics
from servestudy.schedulers.protocol import Scheduler
from servestudy.schedulers.registry import make_scheduler
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import NOISE_SEED_BASE, Workload, rescale, synthesize


@dataclass(frozen=True)
class PublishedModel:
    """The published study's model, or the same with some of its rules changed."""

    rules: Rules = PUBLISHED
    name: str = MODEL

    def noise_seed(self, window: FrozenWindow) -> int:
        """It depends on the window's number only, as published."""
        return NOISE_SEED_BASE + window.number

    def workload(self, window: FrozenWindow) -> Workload:
        """The unscaled requests of a window."""
        rows = window.time_s, window.prompt_tokens, window.output_tokens
        return synthesize(*rows, window.number, window.source, self.rules.synthesis)

    def scaled(self, workload: Workload, load_factor: float, slack_ratio: float = 1.0) -> Workload:
        """The requests at a load factor; published: it divides both gaps and slack. See `workload.rescale`."""
        scaling = self.rules.scaling
        gap_divisor = load_factor if scaling.divides_gaps else 1.0
        return rescale(workload, gap_divisor, slack_ratio, load_factor if scaling.divides_slack else 1.0)

    def as_calibrated(self) -> "PublishedModel":
        """The model with its own rules of calibration, and all others as published."""
        return PublishedModel(Rules(calibration=self.rules.calibration))

    def calibrate(self, window: FrozenWindow) -> Calibration:
        """The reference load of a window."""
        from servestudy.calibration import calibrate  # which needs this module

        return calibrate(self.workload(window), model=self)

    def scheduler(self, name: str) -> Scheduler:
        """A new scheduler of that name with the parameters that the rules give it."""
        return make_scheduler(name, **self.rules.parameters_of(name))

    def run(self, scaled: Workload, scheduler: Scheduler, name: str = "", step_by_step: bool = False) -> Outcome:
        """Simulate; `name` is the scheduler's, for which the rules may have an exception."""
        engine = self.rules.engine_for(name)
        outputs = scaled.output_tokens.tolist()
        return run_with_rules(scaled.requests(), outputs, scheduler, engine, step_by_step=step_by_step)

    def metrics(self, outcome: Outcome, scaled: Workload) -> dict[str, float | int]:
        """Metrics and telemetry of one run on a scaled window, by name."""
        return cell_metrics(outcome, scaled, self._duration_s(outcome)) | asdict(outcome.telemetry)

    def _duration_s(self, outcome: Outcome) -> float:
        duration = self.rules.metrics.duration
        if duration == "end_of_last_step":
            return outcome.sim_duration_s + STEP_S
        if duration == "last_completion":
            return float(outcome.completion_s.max(initial=0.0))
        return outcome.sim_duration_s


PUBLISHED_MODEL = PublishedModel()

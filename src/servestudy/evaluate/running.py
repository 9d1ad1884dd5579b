"""One window of the panel under a scheduler from a file: its cells, what is wrong in them, how long it decides.

Jobs are plain values, so that processes can share the work.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from servestudy.engine_model import EngineModel
from servestudy.errors import UserError
from servestudy.evaluate.checked import Checked
from servestudy.evaluate.findings import Finding, OutOfTime, SchedulerFault
from servestudy.evaluate.loading import scheduler_from_file
from servestudy.metrics import Outcome
from servestudy.progress import progress
from servestudy.simulation import cell_row, measure, simulate_window
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import REGIONS, Workload

MOST_TIMEOUTS = 3


@dataclass(frozen=True)
class WindowJob:
    """All regions of a window. `place` is the scheduler's FILE.py:CLASS, or the name of a registered one.

    thorough: look also at repeated and stepped runs, and at one with other true lengths. limit_s: seconds a run.
    """

    model: EngineModel
    window: FrozenWindow
    lambda_ref: float
    regions: tuple[str, ...]
    name: str
    place: str
    thorough: bool = False
    limit_s: float = 60.0


@dataclass
class WindowResult:
    """Rows of CELL_SCHEMA of the cells that came to an end; findings by region; decision times in nanoseconds."""

    job: WindowJob
    rows: list[dict] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    decision_ns: list[np.ndarray] = field(default_factory=list)
    begun: int = 0
    thorough_cells: int = 0


def run_jobs(jobs: list[WindowJob], processes: int, label: str) -> Iterator[WindowResult]:
    """Results in the order of the jobs. Stops after MOST_TIMEOUTS runs of a scheduler that does not come to an end.

    Raises UserError if a process dies, as a scheduler can make it.
    """
    if processes == 1:
        yield from _until_stuck(progress(map(run_job, jobs), len(jobs), label))
        return
    pool = ProcessPoolExecutor(min(processes, len(jobs)))
    try:
        yield from _until_stuck(progress(pool.map(run_job, jobs), len(jobs), label))
    except BrokenProcessPool:
        raise UserError(
            f"{jobs[0].name}: a process ended in the middle of a cell; does the scheduler exit, crash or use up the "
            "memory? --processes 1 shows where"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _until_stuck(results: Iterator[WindowResult]) -> Iterator[WindowResult]:
    timeouts = 0
    for result in results:
        yield result
        timeouts += sum(finding.kind == "never_returns" for _, finding in result.findings)
        if timeouts >= MOST_TIMEOUTS:
            return


def run_job(job: WindowJob) -> WindowResult:
    """All cells of the job; registered schedulers run as in the workflow."""
    with _engine_warnings_off():
        return _run_own(job) if ":" in job.place else _run_registered(job)


def _run_registered(job: WindowJob) -> WindowResult:
    make = partial(job.model.scheduler, job.name)
    rows = simulate_window(job.window, job.lambda_ref, job.name, make, 1, job.model, job.regions)
    return WindowResult(job, rows)


def _run_own(job: WindowJob) -> WindowResult:
    result = WindowResult(job)
    make = scheduler_from_file(job.place)
    unscaled = job.model.workload(job.window)
    for region in job.regions:
        _run_cell(result, region, unscaled, make)
        if any(finding.kind == "never_returns" for _, finding in result.findings):
            break
    return result


def _run_cell(result: WindowResult, region: str, unscaled: Workload, make: Callable) -> None:
    job = result.job
    load_factor = job.lambda_ref * REGIONS[region]
    scaled = job.model.scaled(unscaled, load_factor)
    checked = Checked(make(), keep_actions=job.thorough)
    result.begun += 1
    outcome = _run(job, scaled, checked)
    result.decision_ns.append(np.array(checked.decision_ns, dtype=np.uint64))
    if outcome is not None:
        measured = measure(outcome, scaled, job.model)
        result.rows.append(cell_row(job.window, region, job.name, 0, load_factor, measured, job.model))
        if job.thorough:
            result.thorough_cells += 1
            checked.findings += run_again(job, scaled, outcome, checked, make)
    result.findings += [(region, finding) for finding in checked.findings]


def _run(job: WindowJob, scaled: Workload, checked: Checked, step_by_step: bool = False) -> Outcome | None:
    """The outcome; None if the scheduler brought the run to an end, which `checked.findings` then has."""
    try:
        with _time_limit(checked, job.limit_s):
            outcome = job.model.run(scaled, checked, job.name, step_by_step)
    except (SchedulerFault, OutOfTime) as fault:
        checked.findings.append(fault.args[0] if isinstance(fault, OutOfTime) else fault.finding)
        return None
    gone = {*outcome.completed_ids.tolist(), *outcome.rejected_ids}
    checked.finish({i for i in range(len(scaled)) if i not in gone})
    return outcome


def run_again(job: WindowJob, scaled: Workload, outcome: Outcome, checked: Checked, make: Callable) -> list[Finding]:
    """Findings of further runs of the same cell: as it was, from the same object, step by step, with other lengths.

    The first difference counts; a scheduler that is not deterministic shows differences everywhere.
    """
    variants = (
        ("not_deterministic", make, False),
        ("state_survives_reset", lambda: checked.inner, False),
        ("decision_outlives_its_word", make, True),
    )
    for kind, new, step_by_step in variants:
        again = Checked(new())
        other = _run(job, scaled, again, step_by_step)
        if other is None:
            return [again.findings[-1]]
        difference = first_difference(outcome, other)
        if difference:
            return [Finding(kind, *difference)]
    return _with_other_lengths(job, scaled, outcome, checked, make)


def first_difference(outcome: Outcome, other: Outcome) -> tuple[int, float, int, str] | None:
    """Step, time, request and wording of the first token or completion at which two outcomes part; None if never."""
    sides = []
    for side in (outcome, other):
        ids = side.completed_ids.tolist()
        times = zip(side.first_token_step.tolist(), side.completion_step.tolist(), strict=True)
        sides.append(dict(zip(ids, times, strict=True)))
    parted = []
    for request_id in sides[0].keys() | sides[1].keys():
        first, second = (side.get(request_id, (np.inf, np.inf)) for side in sides)
        for what, a, b in zip(("first token", "completion"), first, second, strict=True):
            if a != b:
                parted.append((min(a, b), request_id, f"its {what} comes in step {_shown(a)} and in step {_shown(b)}"))
    if not parted:
        return None
    step, request_id, text = min(parted)
    return int(step), _time_of(step, outcome, other), request_id, text


def _shown(step: float) -> str:
    return "never" if step == np.inf else str(step)


def _time_of(step: float, *outcomes: Outcome) -> float:
    for outcome in outcomes:
        for steps, times in (
            (outcome.first_token_step, outcome.first_token_s),
            (outcome.completion_step, outcome.completion_s),
        ):
            place = np.flatnonzero(steps == step)
            if len(place):
                return float(times[place[0]])
    return 0.0


def _with_other_lengths(
    job: WindowJob, scaled: Workload, outcome: Outcome, checked: Checked, make: Callable
) -> list[Finding]:
    """Let requests that are unfinished at half of the completions have other true lengths.

    All that a scheduler may see up to then is the same, so its decisions must be. The lengths of those requests are
    turned round: the shortest becomes the longest, and none shorter than it was.
    """
    half = len(outcome.completed_ids) // 2
    if not half:
        return []
    until = int(outcome.completion_step[half - 1])
    output_tokens = scaled.output_tokens
    later = np.ones(len(scaled), dtype=bool)
    later[outcome.completed_ids[:half]] = False
    later[outcome.completed_ids[outcome.completion_step <= until]] = False
    later[list(outcome.rejected_ids)] = False
    if not later.any():
        return []
    most = (scaled.prompt_tokens + output_tokens)[later].max() - scaled.prompt_tokens
    turned = np.minimum(
        2 * output_tokens[later].max() - output_tokens, most
    )  # none grows beyond what the replica holds
    again = Checked(make(), keep_actions=True)
    if _run(job, replace(scaled, output_tokens=np.where(later, turned, output_tokens)), again) is None:
        return []
    for (step, time_s, action), (step_again, _, action_again) in zip(checked.actions, again.actions, strict=False):
        if step > until or step_again > until:
            break
        if (step, action) != (step_again, action_again):
            named = sorted({*action.admit, *action.preempt} ^ {*action_again.admit, *action_again.preempt})
            text = f"with other lengths it admits {list(action_again.admit)[:5]} instead of {list(action.admit)[:5]}"
            return [Finding("sees_true_lengths", step, time_s, named[0] if named else None, text)]
    return []


@contextmanager
def _time_limit(checked: Checked, seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the scheduler or the engine when the time is over."""

    def ring(signum, frame):
        raise checked.out_of_time(seconds)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _engine_warnings_off() -> Iterator[None]:
    """What the engines warn about is among the findings."""
    log = logging.getLogger("servestudy.engine")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

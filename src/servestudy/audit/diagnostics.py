"""What the defects that are no rules come to in a run: counts and shares, from its cells and windows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from servestudy.audit.defects import DIAGNOSTICS, SWITCHES
from servestudy.audit.switches import rules_of
from servestudy.calibration import read_lambda_ref
from servestudy.engine.fixed_step import STEP_S, first_step_at
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.published_model import PUBLISHED_MODEL, PublishedModel
from servestudy.schedulers.protocol import Action, ReplicaView, Scheduler
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics.outcomes import groups_of_equals
from servestudy.tables import read_table
from servestudy.windows.frozen import FrozenWindow, read_windows
from servestudy.workload import REGIONS, Workload


class Conditions(NamedTuple):
    """What the diagnostics look at: windows of any sources, their reference loads by (source, window), the run's cells
    (first repetitions), the window index, and a scheduler for those that run one."""

    windows: Sequence[FrozenWindow]
    lambda_ref: Mapping[tuple[str, str], float]
    cells: pd.DataFrame
    index: pd.DataFrame
    scheduler: str = "fifo"
    regions: Sequence[str] = tuple(REGIONS)

    def scaled(self, model: PublishedModel = PUBLISHED_MODEL):
        """Every window at every region: (window, region, scaled workload)."""
        for window in self.windows:
            workload = model.workload(window)
            for region in self.regions:
                load_factor = self.lambda_ref[window.source, window.window_id] * REGIONS[region]
                yield window, region, model.scaled(workload, load_factor)


def attainable_goodput(conditions: Conditions) -> pd.DataFrame:
    """infeasible_deadlines: share of requests on time if each were admitted in its first step; a ceiling for ANWG."""
    rows = [
        (window.source, window.window_id, region, on_time_if_admitted_at_once(scaled))
        for window, region, scaled in conditions.scaled()
    ]
    return pd.DataFrame(rows, columns=["source", "window_id", "region", "attainable"])


def on_time_if_admitted_at_once(scaled: Workload) -> float:
    """Share of requests whose last token would be in time if they decoded from their first step on."""
    completion_s = (first_step_at(scaled.arrival_s) + scaled.output_tokens) * STEP_S
    return float(np.mean(completion_s <= scaled.deadline_s))


def fifo_records(conditions: Conditions) -> pd.DataFrame:
    """zero_completion_label: FIFO's cells without a completion, and without a violation, by source."""
    fifo = conditions.cells[conditions.cells["scheduler"] == "fifo"]
    counted = fifo.assign(
        without_completion=fifo["completion_fraction"] == 0, without_violation=fifo["slo_violation_rate"] == 0
    )
    return counted.groupby("source")[["without_completion", "without_violation"]].sum().reset_index()


def equal_schedulers(conditions: Conditions) -> pd.DataFrame:
    """equal_policies: how many schedulers differ in the times of some request, by cell."""
    keys = ["source", "window_id", "region"]
    rows = [
        (*key, len(cells), len(groups_of_equals(dict(zip(cells["scheduler"], cells["outcome_sha256"], strict=True)))))
        for key, cells in conditions.cells.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows, columns=[*keys, "n_schedulers", "n_distinct"])


def reasons_to_wait(conditions: Conditions) -> pd.DataFrame:
    """activation_counter: why requests waited while a slot was free: no KV left, no slot left, or the rule.

    The reason is that at the decision; it counts for all steps for which the decision stood.
    """
    rows = []
    for window, region, scaled in conditions.scaled():
        watched = ReasonsToWait(PUBLISHED_MODEL.scheduler(conditions.scheduler))
        outcome = PUBLISHED_MODEL.run(scaled, watched, conditions.scheduler)
        watched.count_steps_before(outcome.last_step + 1)
        found = {reason: watched.reasons[reason] for reason in ("slot", "kv", "rule")}
        counted = outcome.telemetry.admission_control_activations
        rows.append({"source": window.source, "window_id": window.window_id, "region": region, **found, "all": counted})
    return pd.DataFrame(rows)


class ReasonsToWait(Scheduler):
    """A scheduler that notes for each request that another leaves waiting while a slot is free why that is."""

    def __init__(self, scheduler: Scheduler):
        self._scheduler = scheduler
        self._standing: Counter[str] = Counter()  # per step after the last decision's own
        self._last_step = 0
        self.reasons: Counter[str] = Counter()

    def reset(self) -> None:
        self._scheduler.reset()

    def count_steps_before(self, step: int) -> None:
        """Count the last decision for the steps after its own and before `step`."""
        for reason, count in self._standing.items():
            self.reasons[reason] += count * (step - self._last_step - 1)

    def decide(self, view: ReplicaView) -> Action:
        self.count_steps_before(view.step)
        action = self._scheduler.decide(view)
        limits, admitted = view.limits, set(action.admit)
        running = view.running_count + len(admitted) - len(action.preempt)
        kv_tokens = view.kv_tokens + sum(r.prompt_tokens for r in view.waiting if r.request_id in admitted)
        left = [request for request in view.waiting if request.request_id not in admitted]
        slot_free = running < limits.max_num_seqs
        short_of_kv = sum(kv_tokens + request.prompt_tokens > limits.max_kv_tokens for request in left)
        found = Counter(kv=short_of_kv, rule=len(left) - short_of_kv) if slot_free else Counter(slot=len(left))
        if view.running_count < limits.max_num_seqs:
            self.reasons.update(found)
        self._standing = found if slot_free else Counter()
        self._last_step = view.step
        return action


def contention_with_prefill(conditions: Conditions) -> pd.DataFrame:
    """idle_telemetry: the two fields that are always 0, with prefill modelled."""
    model = PublishedModel(rules_of({"prefill_free": "decode_protected"}))
    names = ("prefill_decode_contention_fraction", "token_budget_saturation_fraction")
    rows = []
    for window, region, scaled in conditions.scaled(model):
        outcome = model.run(scaled, model.scheduler(conditions.scheduler), conditions.scheduler)
        found = {name: getattr(outcome.telemetry, name) for name in names}
        rows.append({"source": window.source, "window_id": window.window_id, "region": region, **found})
    return pd.DataFrame(rows)


def strata_by_position(conditions: Conditions) -> pd.DataFrame:
    """stage0_strata: the published stratum of each window beside the third of the file's windows that it starts in."""
    index = conditions.index
    rank = index.groupby("source")["start_row"].rank(method="first") - 1
    third = (3 * rank / index.groupby("source")["start_row"].transform("size")).astype(int)
    labels = np.array(["EARLY", "MIDDLE", "LATE"])[third]
    return index[["source", "window_id", "chronology_stratum"]].assign(stratum_by_position=labels)


def autocorrelation(conditions: Conditions) -> pd.DataFrame:
    """window_independence: correlation of neighbouring windows (by position) in descriptors and in ANWG, by source."""
    descriptors = ["prompt_tokens_mean", "output_tokens_mean", "arrival_rate_rps"]
    anwg = conditions.cells.groupby(["source", "window_id"])[PRIMARY_METRIC].mean().rename("anwg")
    table = conditions.index.merge(anwg.reset_index(), on=["source", "window_id"]).sort_values("start_row")
    rows = []
    for source, windows in table.groupby("source"):
        for name in [*descriptors, "anwg"]:
            rows.append((source, name, len(windows), windows[name].astype(float).autocorr(1)))
    return pd.DataFrame(rows, columns=["source", "value", "n_windows", "lag_1_autocorrelation"])


def slai_decisions(conditions: Conditions) -> pd.DataFrame:
    """slai_slo_inactive: decisions with a critical decode, and the longest run of holds of one request."""
    rows = []
    for window, region, scaled in conditions.scaled():
        watched = HoldsOfSlai(PUBLISHED_MODEL.scheduler("slai_faithful"))
        PUBLISHED_MODEL.run(scaled, watched, "slai_faithful", step_by_step=True)
        rows.append((window.source, window.window_id, region, watched.decisions, watched.critical, watched.longest))
    return pd.DataFrame(rows, columns=["source", "window_id", "region", "decisions", "critical", "longest_hold"])


class HoldsOfSlai(Scheduler):
    """slai_faithful, with a count of critical decisions and of steps that a request rests in a row."""

    def __init__(self, scheduler: Scheduler):
        self._scheduler = scheduler
        self._held: Counter[int] = Counter()
        self.decisions = self.critical = self.longest = 0

    def reset(self) -> None:
        self._scheduler.reset()

    def decide(self, view: ReplicaView) -> Action:
        latest_start_s = dict(self._scheduler.latest_start_s)
        action = self._scheduler.decide(view)
        self.decisions += 1
        running = {request.request_id for request in view.running}
        self.critical += any(view.time_s >= latest for i, latest in latest_start_s.items() if i in running)
        self._held = Counter({request_id: self._held[request_id] + 1 for request_id in action.hold})
        self.longest = max([self.longest, *self._held.values()])
        return action


def read_conditions(run_dir: Path, scheduler: str, regions: Sequence[str]) -> Conditions:
    """The conditions of a run, from its folder; raises UserError if a table is missing."""
    index_file = run_dir / "windows/index.csv"
    if not index_file.is_file():
        raise UserError(f"{index_file}: not found; is {run_dir} the folder of a complete run?")
    index = pd.read_csv(index_file)
    sources = sorted(index["source"].unique())
    windows = [window for source in sources for window in read_windows(run_dir / f"windows/{source}.parquet")]
    loads = {source: read_lambda_ref(run_dir / f"calibration/published/{source}.parquet") for source in sources}
    files = sorted(path for source in sources for path in (run_dir / f"cells/published/{source}").glob("*.parquet"))
    cells = pd.concat([read_table(path, CELL_SCHEMA).to_pandas() for path in files], ignore_index=True)
    cells = cells[(cells["repetition"] == 0) & cells["region"].isin(regions)]
    lambda_ref = {(source, name): load for source, of_source in loads.items() for name, load in of_source.items()}
    return Conditions(windows, lambda_ref, cells, index, scheduler, regions)


def diagnose(name: str, conditions: Conditions) -> pd.DataFrame:
    """The table of a defect's diagnostic; raises UserError that lists the defects that have one."""
    functions = {key: switch.diagnostic for key, switch in SWITCHES.items() if switch.diagnostic}
    functions |= {key: diagnostic.function for key, diagnostic in DIAGNOSTICS.items()}
    if name not in functions:
        raise UserError(f"{name!r} has no diagnostic; allowed: {', '.join(functions)}")
    return globals()[functions[name]](conditions)

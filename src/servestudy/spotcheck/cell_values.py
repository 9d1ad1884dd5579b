"""The metrics of each measured cell, by the formulas of metrics.py, and those that need the time of every token."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from servestudy.metrics import cell_metrics
from servestudy.spotcheck.measurements import KEY, Measurements
from servestudy.workload import Workload

ANWG = "arrival_normalized_weighted_goodput"


class Completed:
    """Requests that all completed, as metrics.py reads an outcome; arrays by request, times in seconds."""

    def __init__(self, first_token_s: np.ndarray, completion_s: np.ndarray):
        self.completed_ids = np.arange(len(completion_s))
        self.first_token_s, self.completion_s = first_token_s, completion_s
        self.sim_duration_s = float(completion_s.max())


def workload_of(requests: pd.DataFrame, deadline_s: np.ndarray) -> Workload:
    """The requests of a cell with equal weights, judged by these deadlines."""
    output = requests["output_tokens"].to_numpy()
    return Workload(
        arrival_s=requests["arrival_s"].to_numpy(),
        prompt_tokens=requests["prompt_tokens"].to_numpy(),
        output_tokens=output,
        predicted_output_tokens=output,
        deadline_s=deadline_s,
        weight=np.ones(len(requests)),
    )


def own_deadline_s(requests: pd.DataFrame, calibration: pd.Series) -> np.ndarray:
    """Deadlines by the calibrated targets, which do not shrink with the time axis."""
    further = requests["output_tokens"].to_numpy() - 1
    return requests["arrival_s"].to_numpy() + calibration["ttft_s"] + calibration["tbt_s"] * further


def times_of(requests: pd.DataFrame, deadline_s: np.ndarray, done: Completed) -> dict[str, float]:
    """Metrics that a simulator gives too, by name."""
    values = cell_metrics(done, workload_of(requests, deadline_s))
    ttft = done.first_token_s - requests["arrival_s"].to_numpy()
    return {
        "anwg": values[ANWG],
        "ttft_mean_s": values["mean_ttft"],
        "ttft_p50_s": float(np.median(ttft)),
        "ttft_p99_s": float(np.percentile(ttft, 99)),
        "latency_mean_s": values["mean_latency"],
        "throughput_rps": values["request_throughput"],
    }


def valid_cells(measured: Measurements) -> Iterator[tuple[pd.Series, pd.DataFrame, pd.DataFrame, pd.Series]]:
    """Row, requests, steps and calibration of each valid cell."""
    calibration = measured.calibration.set_index(["source", "window_number"])
    requests = dict(iter(measured.requests.groupby(list(KEY), sort=False)))
    steps = dict(iter(measured.steps.groupby(list(KEY), sort=False)))
    for _, cell in measured.cells[measured.cells["valid"]].iterrows():
        key = tuple(cell[name] for name in KEY)
        yield cell, requests[key], steps[key], calibration.loc[key[:2]]


def engine_values(measured: Measurements) -> pd.DataFrame:
    """One row a valid cell: KEY, metrics, and what tells whether the schedulers could differ at all."""
    return pd.DataFrame([_values(*parts) for parts in valid_cells(measured)])


def token_times(requests: pd.DataFrame, steps: pd.DataFrame) -> list[np.ndarray]:
    """Times of each request's tokens, s."""
    end_s = steps["end_s"].to_numpy()
    return [end_s[numbers] for numbers in requests["token_steps"]]


def _values(cell: pd.Series, requests: pd.DataFrame, steps: pd.DataFrame, calibration: pd.Series) -> dict:
    tokens = token_times(requests, steps)
    done = Completed(np.array([t[0] for t in tokens]), np.array([t[-1] for t in tokens]))
    deadline_s = own_deadline_s(requests, calibration)
    gaps = [np.diff(t) for t in tokens if len(t) > 1]
    every = [
        (t <= arrival_s + calibration["ttft_s"] + calibration["tbt_s"] * np.arange(len(t))).all()
        for t, arrival_s in zip(tokens, requests["arrival_s"], strict=True)
    ]
    published = cell_metrics(done, workload_of(requests, requests["deadline_s"].to_numpy()))
    mean_step_s = float((steps["end_s"] - steps["start_s"]).mean())
    return {
        **{name: cell[name] for name in KEY},
        "bracketed": bool(calibration["bracketed"]),
        "rate_rps": cell["rate_rps"],
        **times_of(requests, deadline_s, done),
        "anwg_published_deadlines": published[ANWG],
        "every_token_share": float(np.mean(every)),
        "goodput_rps": float((done.completion_s <= deadline_s).sum() / cell["makespan_s"]),
        "gap_p99_s": float(np.percentile(np.concatenate(gaps), 99)) if gaps else np.nan,
        "largest_gap_s": float(max(gap.max() for gap in gaps)) if gaps else np.nan,
        "held_decodes": int(steps["held"].sum()),
        "decodes": int(sum(map(len, gaps))),
        "evictions": int(requests["evictions"].sum()),
        "most_running": int(steps["running"].max()),
        "tbt_in_steps": cell["tbt_s"] / mean_step_s,
        "mean_step_s": mean_step_s,
        "late_s": cell["late_s"],
        "busy_share": cell["busy_share"],
    }

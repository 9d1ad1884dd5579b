"""The simulator against the engine: the same requests and policy, iteration times fitted to other windows' steps."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.errors import UserError
from servestudy.spotcheck.cell_values import Completed, own_deadline_s, times_of, valid_cells
from servestudy.spotcheck.measurements import KEY, STEPS, Measurements
from servestudy.spotcheck.policy import ARMS
from servestudy.spotcheck.simulator import StepTime, simulate
from servestudy.tables import column

METRICS = ("anwg", "ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "latency_mean_s", "throughput_rps")
_KEY_FIELDS = [STEPS.field(name) for name in KEY]
ERRORS = pa.schema(
    [
        *_KEY_FIELDS,
        column("fitted_on", pa.string(), "whose steps the iteration times are fitted to"),
        column("metric", pa.string(), "what is compared"),
        column("engine", pa.float64(), "value on the engine"),
        column("simulator", pa.float64(), "value in the simulator"),
        column("relative_error", pa.float64(), "simulator less engine, over engine"),
    ]
)
SUMMARY = pa.schema(
    [
        column("variant", pa.string(), "main, as_published, tight_kv"),
        column("load", pa.float64(), "multiple of the rate that the engine sustains"),
        column("metric", pa.string(), "what is compared"),
        column("n_cells", pa.int32(), "cells"),
        column("median_relative_error", pa.float64(), "simulator less engine, over engine: median"),
        column("median_absolute_error", pa.float64(), "its size: median"),
        column("largest_absolute_error", pa.float64(), "its size: maximum"),
        column("n_pairs", pa.int32(), "windows with both arms whose values differ on the engine"),
        column("same_order", pa.int32(), "of these, windows on which the simulator orders the arms as the engine does"),
    ]
)
STEP_TIMES = pa.schema(
    [
        column("tokens_low", pa.int32(), "fewest tokens of the steps in this group"),
        column("tokens_high", pa.int32(), "most tokens"),
        column("n_steps", pa.int64(), "steps"),
        column("tokens_mean", pa.float64(), "mean tokens"),
        column("low_s", pa.float64(), "5th percentile of their times, s"),
        column("median_s", pa.float64(), "median, s"),
        column("high_s", pa.float64(), "95th percentile, s"),
        column("fitted_s", pa.float64(), "mean of the fitted times, s"),
        column("base_s", pa.float64(), "fit: seconds of a step"),
        column("token_s", pa.float64(), "fit: seconds a token"),
        column("decode_s", pa.float64(), "fit: seconds a decode"),
        column("kv_token_s", pa.float64(), "fit: seconds a KV token that decodes read"),
    ]
)
GROUPS = 14


def fit(steps: pd.DataFrame) -> StepTime:
    """Iteration times of measured steps."""
    seconds = (steps["end_s"] - steps["start_s"]).to_numpy()
    return StepTime.fitted(*(steps[name].to_numpy(float) for name in ("tokens", "requests", "kv_read")), seconds)


def simulator_errors(measured: Measurements) -> pd.DataFrame:
    """Rows of ERRORS: the simulator's prediction of each valid cell.

    The steps of the window itself are left out of the fit where other windows of the device are measured.
    """
    preset = measured.provenance["preset"]
    steps, fits, rows = measured.steps, {}, []
    for cell, requests, _, calibration in valid_cells(measured):
        window = cell["source"], cell["window_number"]
        if window not in fits:
            own = (steps["source"] == window[0]) & (steps["window_number"] == window[1])
            fits[window] = (fit(steps[~own]), "other windows") if not own.all() else (fit(steps), "the same window")
        step_time, fitted_on = fits[window]
        tbt_s = [cell["tbt_s"]] * len(requests)
        jobs = zip(requests["arrival_s"], requests["prompt_tokens"], requests["output_tokens"], tbt_s, strict=True)
        outcome, _ = simulate(
            list(jobs), ARMS[cell["arm"]], step_time, int(cell["kv_tokens"]), preset["budget"], preset["max_num_seqs"]
        )
        by_id = np.argsort(outcome.completed_ids)
        if len(by_id) != len(requests):
            raise UserError(f"the simulator completes {len(by_id)} of {len(requests)} requests of {window}")
        deadline_s = own_deadline_s(requests, calibration)
        simulated = times_of(requests, deadline_s, Completed(outcome.first_token_s[by_id], outcome.completion_s[by_id]))
        rows += [
            {**{name: cell[name] for name in KEY}, "fitted_on": fitted_on, "metric": name, "simulator": simulated[name]}
            for name in METRICS
        ]
    return pd.DataFrame(rows)


def with_engine(simulated: pd.DataFrame, engine: pd.DataFrame) -> pd.DataFrame:
    """Rows of ERRORS from `simulator_errors` and `engine_values`."""
    long = engine.melt(id_vars=list(KEY), value_vars=list(METRICS), var_name="metric", value_name="engine")
    table = simulated.merge(long, on=[*KEY, "metric"], how="left", validate="one_to_one")
    difference = table["simulator"] - table["engine"]
    table["relative_error"] = difference / table["engine"].where(table["engine"] != 0)
    return table[ERRORS.names]


def summary(errors: pd.DataFrame) -> pd.DataFrame:
    """Rows of SUMMARY."""
    rows = []
    for (variant, load, metric), group in errors.groupby(["variant", "load", "metric"], sort=True):
        size = group["relative_error"].abs()
        group = group.assign(arm=group["arm"].str.replace("_as_published", ""))
        order = {
            side: np.sign(_arm(group, side, "slai") - _arm(group, side, "fcfs")).dropna()
            for side in ("engine", "simulator")
        }
        differing = order["engine"] != 0
        rows.append(
            {
                "variant": variant,
                "load": load,
                "metric": metric,
                "n_cells": len(group),
                "median_relative_error": group["relative_error"].median(),
                "median_absolute_error": size.median(),
                "largest_absolute_error": size.max(),
                "n_pairs": int(differing.sum()),
                "same_order": int((order["engine"] == order["simulator"])[differing].sum()),
            }
        )
    return pd.DataFrame(rows, columns=SUMMARY.names)


def _arm(errors: pd.DataFrame, side: str, arm: str) -> pd.Series:
    """Values of one arm by window and repetition."""
    return errors[errors["arm"] == arm].set_index(["source", "window_number", "repetition"])[side]


def step_times(measured: Measurements) -> pd.DataFrame:
    """Rows of STEP_TIMES: measured steps in groups of about equal number by their tokens, and the fit to all."""
    steps = measured.steps
    seconds, tokens = (steps["end_s"] - steps["start_s"]).to_numpy(), steps["tokens"].to_numpy()
    model = fit(steps)
    fitted = model.iteration_s(tokens, steps["requests"].to_numpy(), steps["kv_read"].to_numpy())
    edges = np.unique(np.geomspace(1, tokens.max() + 1, GROUPS + 1).astype(int))
    rows = []
    for low, high in pairwise(edges.tolist()):
        of_group = (tokens >= low) & (tokens < high)
        if not of_group.any():
            continue
        quantiles = np.percentile(seconds[of_group], [5, 50, 95])
        rows.append(
            {
                "tokens_low": low,
                "tokens_high": high - 1,
                "n_steps": int(of_group.sum()),
                "tokens_mean": tokens[of_group].mean(),
                **dict(zip(("low_s", "median_s", "high_s"), quantiles, strict=True)),
                "fitted_s": fitted[of_group].mean(),
                "base_s": model.base_s,
                "token_s": model.token_s,
                "decode_s": model.decode_s,
                "kv_token_s": model.kv_token_s,
            }
        )
    return pd.DataFrame(rows)

"""What the scheduler does to a metric, SLAI less FCFS on the same window, and whether the simulators say the same."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.seeds import stream
from servestudy.simulation import CELL_SCHEMA
from servestudy.spotcheck.cell_values import ANWG
from servestudy.spotcheck.registry import SIMULATED
from servestudy.statistics.bootstrap import RESAMPLES, adjusted_p, draw, percentile_interval, resampled_means
from servestudy.tables import column, read_table

SLAI, FCFS, NONE = "slai", "fcfs", "undecided"
BRACKETED, ALL = "bracketed", "all"
METRICS = (
    "anwg",
    "anwg_published_deadlines",
    "every_token_share",
    "ttft_p50_s",
    "ttft_p99_s",
    "latency_mean_s",
    "gap_p99_s",
    "throughput_rps",
)
FEWEST_WINDOWS = 2
REGION = "HIGH_PRESSURE"
HEADLINE = ("main", 1.05, "anwg")
"""Variant, load and metric that decide winners; the study's load is 1.5 times a reference that most windows exceed."""

_EFFECT = (
    column("n_windows", pa.int32(), "windows with both arms"),
    column("slai_mean", pa.float64(), "mean under SLAI"),
    column("fcfs_mean", pa.float64(), "mean under FCFS"),
    column("effect", pa.float64(), "mean over windows of SLAI less FCFS"),
    column("low", pa.float64(), "95 % interval over resampled windows; NaN with fewer than two windows"),
    column("high", pa.float64(), "the same"),
    column("p", pa.float64(), "twice the share of resamples on the other side of 0, at least 1 of 1,000"),
    column("winner", pa.string(), "slai or fcfs if the interval excludes 0, else undecided"),
)
EFFECTS = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("variant", pa.string(), "main, as_published, tight_kv"),
        column("load", pa.float64(), "multiple of the rate that the engine sustains"),
        column("windows", pa.string(), "bracketed: with a rate that the engine just sustains; all: others too"),
        column("metric", pa.string(), "what is compared"),
        column(
            "held_share", pa.float64(), "held decodes over made ones under SLAI; 0: not SLAI but shortest prompt first"
        ),
        *_EFFECT,
        column("p_adjusted", pa.float64(), "Benjamini-Hochberg over sources, all else equal"),
    ]
)
AGREEMENT = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("windows", pa.string(), "windows on the engine: bracketed or all"),
        column("simulator", pa.string(), "engine model, or `study`: what the published study reports"),
        column("simulated_effect", pa.float64(), "ANWG of SLAI less that of FCFS, at the highest load"),
        column("simulated_low", pa.float64(), "95 % interval"),
        column("simulated_high", pa.float64(), "95 % interval"),
        column("simulated_winner", pa.string(), "slai, fcfs, undecided, or unknown"),
        column("engine_effect", pa.float64(), "the same on the real engine"),
        column("engine_low", pa.float64(), "95 % interval"),
        column("engine_high", pa.float64(), "95 % interval"),
        column("engine_winner", pa.string(), "slai, fcfs or undecided"),
        column("agreement", pa.string(), "agrees, disagrees, or which side is undecided or unknown"),
    ]
)

STUDY = {
    "azure": (0.520375, -0.0235, -0.026625, -0.020375),
    "burstgpt": (-0.347625, -0.20025, -0.263753, -0.144372),
    "bailian": (np.nan, -0.025625, -0.029875, -0.021875),
}
"""Simulated effect, engine effect and interval by the first word of a source (sec:real-system-result, Table 4, and
docs/RQ6_PUBLIC_RESULT_PROVENANCE.md). A simulated effect on Bailian is not published."""


def effects(values: pd.DataFrame) -> pd.DataFrame:
    """Rows of EFFECTS from `engine_values`.

    Repetitions are averaged; windows with one arm only are left out. The rate of a window that is not bracketed is that
    of its burst, so the rows of all windows have more windows and a less certain load.
    """
    rows = []
    values = values.assign(arm=values["arm"].str.replace("_as_published", ""))
    for (variant, load, source), group in values.groupby(["variant", "load", "source"]):
        arms = {arm: of_arm.groupby("window_number").mean(numeric_only=True) for arm, of_arm in group.groupby("arm")}
        if len(arms) < 2:
            continue
        both = arms[SLAI].index.intersection(arms[FCFS].index)
        bracketed = both[arms[SLAI].loc[both, "bracketed"] > 0.5]
        for windows, chosen in ((BRACKETED, bracketed), (ALL, both)):
            slai, fcfs = (arms[arm].loc[chosen] for arm in (SLAI, FCFS))
            key = {"source": source, "variant": variant, "load": load, "windows": windows}
            held = float(slai["held_decodes"].sum() / max(1, slai["decodes"].sum())) if len(slai) else np.nan
            rows += [
                {
                    **key,
                    "metric": metric,
                    "held_share": held,
                    **paired(slai[metric].to_numpy(), fcfs[metric].to_numpy(), metric),
                }
                for metric in METRICS
            ]
    table = pd.DataFrame(rows, columns=[name for name in EFFECTS.names if name != "p_adjusted"])
    table["p_adjusted"] = np.nan
    for _, group in table.groupby(["variant", "load", "windows", "metric"]):
        table.loc[group.index, "p_adjusted"] = adjusted_p(group["p"].to_numpy())
    return table


def paired(slai: np.ndarray, fcfs: np.ndarray, metric: str) -> dict:
    """Effect, interval, p and winner of values by window. A smaller value wins where the metric is a time."""
    difference = slai - fcfs
    difference = difference[~np.isnan(difference)]
    found = {
        "n_windows": len(difference),
        "slai_mean": float(np.mean(slai)) if len(slai) else np.nan,
        "fcfs_mean": float(np.mean(fcfs)) if len(fcfs) else np.nan,
        "effect": float(np.mean(difference)) if len(difference) else np.nan,
        "low": np.nan,
        "high": np.nan,
        "p": np.nan,
        "winner": NONE,
    }
    if len(difference) < FEWEST_WINDOWS:
        return found
    (places,) = draw(stream("spotcheck effect"), len(difference))
    means = resampled_means(difference[None], places)[0]
    interval = percentile_interval(means)
    other_side = min((means >= 0).mean(), (means <= 0).mean())
    found |= {"low": interval.low, "high": interval.high, "p": min(1.0, 2 * (other_side + 1 / RESAMPLES))}
    if not interval.low <= 0 <= interval.high:
        slai_is_better = (found["effect"] > 0) != metric.endswith("_s")
        found["winner"] = SLAI if slai_is_better else FCFS
    return found


def agreement(engine: pd.DataFrame, cells: Mapping[str, Mapping[str, Mapping[str, Path]]]) -> pd.DataFrame:
    """Rows of AGREEMENT. `engine`: EFFECTS; `cells`: simulator -> source -> scheduler -> file of the run's cells."""
    variant, load, metric = HEADLINE
    shown = engine[(engine["variant"] == variant) & (engine["load"] == load) & (engine["metric"] == metric)]
    rows = []
    for _, measured in shown.iterrows():
        source = measured["source"]
        for simulator, arms in SIMULATED.items():
            files = cells.get(simulator, {}).get(source, {})
            found = _simulated(files, arms) if all(arm in files for arm in arms) else None
            rows.append(_agreement_row(simulator, found, measured))
        study = STUDY.get(source.split("_")[0])
        if study:
            rows.append(_study_row(source, measured["windows"], study))
    return pd.DataFrame(rows, columns=AGREEMENT.names)


def _simulated(files: Mapping[str, Path], arms: tuple[str, str]) -> dict:
    slai, fcfs = (_by_window(files[arm]) for arm in arms)
    both = slai.index.intersection(fcfs.index)
    return paired(slai[both].to_numpy(), fcfs[both].to_numpy(), "anwg")


def _by_window(path: Path) -> pd.Series:
    table = read_table(path, CELL_SCHEMA).to_pandas()
    return table[(table["region"] == REGION) & (table["repetition"] == 0)].set_index("window_number")[ANWG]


def _agreement_row(simulator: str, found: dict | None, measured: pd.Series) -> dict:
    nothing = {"effect": np.nan, "low": np.nan, "high": np.nan, "winner": "unknown"}
    simulated = found or nothing
    return {
        "source": measured["source"],
        "windows": measured["windows"],
        "simulator": simulator,
        **{f"simulated_{name}": simulated[name] for name in nothing},
        **{f"engine_{name}": measured[name] for name in nothing},
        "agreement": _judge(simulated["winner"], measured["winner"]),
    }


def _study_row(source: str, windows: str, study: tuple[float, ...]) -> dict:
    simulated, effect, low, high = study
    winner = "unknown" if np.isnan(simulated) else SLAI if simulated > 0 else FCFS
    return {
        "source": source,
        "windows": windows,
        "simulator": "study",
        "simulated_effect": simulated,
        "simulated_low": np.nan,
        "simulated_high": np.nan,
        "simulated_winner": winner,
        "engine_effect": effect,
        "engine_low": low,
        "engine_high": high,
        "engine_winner": FCFS,
        "agreement": _judge(winner, FCFS),
    }


def _judge(simulated: str, engine: str) -> str:
    if simulated == "unknown":
        return "simulator unknown"
    if NONE in (simulated, engine):
        return "engine undecided" if engine == NONE else "simulator undecided"
    return "agrees" if simulated == engine else "disagrees"

"""What each window's workload looks like: the features of the published workload characterisation.

Source: the published study, src/robustbench/characterization. Standard deviations are of the population, percentiles
interpolate linearly, what cannot be computed is NaN. The classifier uses `CLASSIFIER_FEATURES`: three pressure proxies
are exact products of other features. (A share of prompts of 32,768 tokens or more, which the study computes and never
uses, is left out.)

The corpus differs from the published one. The study characterised 100 further windows of each of four sources (those
of its campaign and TraceLab), cut by a rule of its own in non-overlapping buckets. Here the features are those of the
windows that the run simulates, so that what is said about workloads is said about the workloads that were ranked.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import stats

from servestudy.errors import UserError
from servestudy.tables import column
from servestudy.windows.descriptors import descriptors
from servestudy.windows.frozen import FrozenWindow, read_windows

STRATA = ("EARLY", "MIDDLE", "LATE")
SLICES = 20
LONG_PROMPT_TOKENS = (512, 2048, 8192)

# Group of features -> feature -> its meaning (and unit).
FEATURE_GROUPS = {
    "arrival_burstiness": {
        "mean_arrival_rate_rps": "requests / duration, 1/s",
        "interarrival_cv": "standard deviation / mean of the gaps between arrivals",
        "interarrival_p50_s": "50th percentile of the gaps, s",
        "interarrival_p90_s": "90th percentile of the gaps, s",
        "interarrival_p99_s": "99th percentile of the gaps, s",
        "burstiness_b": "(sd - mean) / (sd + mean) of the gaps",
        "peak_short_window_arrival_rate_rps": "largest arrival rate in 20 equal slices of the window, 1/s",
        "idle_gap_fraction": "time in gaps longer than three mean gaps / duration, at most 1",
    },
    "prompt_length": {
        "prompt_tokens_mean": "mean of prompt tokens",
        "prompt_tokens_cv": "standard deviation / mean of prompt tokens",
        "prompt_tokens_p90": "90th percentile of prompt tokens",
        "prompt_tokens_p99": "99th percentile of prompt tokens",
        "long_prompt_fraction_512": "share of requests with 512 prompt tokens or more",
        "long_prompt_fraction_2048": "share of requests with 2,048 prompt tokens or more",
        "long_prompt_fraction_8192": "share of requests with 8,192 prompt tokens or more",
    },
    "output_length": {
        "output_tokens_mean": "mean of output tokens",
        "output_tokens_cv": "standard deviation / mean of output tokens",
        "output_tokens_p90": "90th percentile of output tokens",
        "output_tokens_p99": "99th percentile of output tokens",
    },
    "joint_token_stats": {
        "prompt_output_pearson_r": "Pearson's correlation of prompt and output tokens",
        "prompt_output_spearman_r": "Spearman's correlation of prompt and output tokens",
        "total_tokens_mean": "mean of prompt + output tokens",
        "total_tokens_p90": "90th percentile of prompt + output tokens",
        "total_tokens_p99": "99th percentile of prompt + output tokens",
        "prompt_output_ratio_mean": "mean of (prompt tokens + 1) / (output tokens + 1)",
        "total_tokens_tail_ratio_p99_p50": "99th / 50th percentile of prompt + output tokens",
        "total_tokens_excess_kurtosis": "bias-corrected excess kurtosis of prompt + output tokens",
        "total_tokens_gini": "Gini coefficient of prompt + output tokens",
    },
    "pressure_proxy": {
        "approx_token_arrival_rate_tps": "arrival rate x mean of prompt + output tokens, tokens/s",
        "approx_concurrent_request_proxy": "arrival rate x mean of output tokens, tokens/s",
        "approx_kv_demand_proxy_tokens": "the former x mean of prompt tokens",
    },
}
FEATURES = tuple(name for group in FEATURE_GROUPS.values() for name in group)
CLASSIFIER_GROUPS = {name: tuple(group) for name, group in FEATURE_GROUPS.items() if name != "pressure_proxy"}
CLASSIFIER_FEATURES = tuple(name for group in CLASSIFIER_GROUPS.values() for name in group)

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("window_id", pa.string(), "id of the window"),
        column("window_number", pa.int32(), "number of the window within its source, from 0"),
        column("stratum", pa.string(), "third of the source's valid rows that holds the window's first row"),
        column("requests", pa.int32(), "requests in the window"),
        *(
            column(name, pa.float64(), f"{meaning}; NaN if it cannot be computed")
            for group in FEATURE_GROUPS.values()
            for name, meaning in group.items()
        ),
    ]
)


def features(time_s: np.ndarray, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> dict[str, float]:
    """The 31 features of one window, by name in the order of `FEATURES`; arrays have one element a request."""
    basic = descriptors(time_s, prompt_tokens, output_tokens)
    gaps_s = np.diff(np.sort(time_s))
    prompt, output = prompt_tokens.astype(float), output_tokens.astype(float)
    total = prompt + output
    total_p50, total_p90, total_p99 = np.percentile(total, [50, 90, 99])
    gap_percentiles = np.percentile(gaps_s, [50, 90, 99]) if len(gaps_s) else np.full(3, np.nan)
    rate_rps, total_mean = basic["arrival_rate_rps"], np.mean(total)
    found = {
        **basic,
        "mean_arrival_rate_rps": rate_rps,
        **dict(zip(("interarrival_p50_s", "interarrival_p90_s", "interarrival_p99_s"), gap_percentiles, strict=True)),
        "peak_short_window_arrival_rate_rps": _peak_rate(time_s, basic["duration_s"]),
        "idle_gap_fraction": _idle_share(gaps_s, basic["duration_s"]),
        **{f"long_prompt_fraction_{tokens}": np.mean(prompt >= tokens) for tokens in LONG_PROMPT_TOKENS},
        "prompt_output_pearson_r": basic["prompt_output_correlation"],
        "prompt_output_spearman_r": _spearman(prompt, output),
        "total_tokens_mean": total_mean,
        "total_tokens_p90": total_p90,
        "total_tokens_p99": total_p99,
        "prompt_output_ratio_mean": np.mean((prompt + 1) / (output + 1)),
        "total_tokens_tail_ratio_p99_p50": total_p99 / total_p50 if total_p50 else np.nan,
        "total_tokens_excess_kurtosis": _excess_kurtosis(total),
        "total_tokens_gini": _gini(total),
        "approx_token_arrival_rate_tps": rate_rps * total_mean,
        "approx_concurrent_request_proxy": rate_rps * basic["output_tokens_mean"],
        "approx_kv_demand_proxy_tokens": rate_rps * basic["output_tokens_mean"] * basic["prompt_tokens_mean"],
    }
    return {name: float(found[name]) for name in FEATURES}


def analyse(windows: Sequence[FrozenWindow], strata: dict[tuple[str, str], str]) -> pd.DataFrame:
    """Rows of SCHEMA, by source name and window number; `strata` as `read_strata` gives them.

    Raises UserError for a window without a stratum.
    """
    rows = []
    for window in sorted(windows, key=lambda window: (window.source, window.number)):
        key = (window.source, window.window_id)
        if key not in strata:
            raise UserError(
                f"window {window.window_id} of {window.source} is not in the window index; freeze both anew"
            )
        values = features(window.time_s, window.prompt_tokens, window.output_tokens)
        rows.append((*key, window.number, strata[key], len(window.time_s), *values.values()))
    return pd.DataFrame(rows, columns=SCHEMA.names)


def read_all(paths: Iterable[Path | str]) -> list[FrozenWindow]:
    """The windows of all these window tables; raises UserError as `read_windows` does."""
    return [window for path in paths for window in read_windows(path)]


def read_strata(index: Path | str) -> dict[tuple[str, str], str]:
    """Stratum of each (source, window_id) of a window index: EARLY, MIDDLE or LATE.

    It is the third of the rows from which windows are cut, `skip_rows` to `valid_rows`, that holds the window's first.
    The index's own `chronology_stratum` is another label: it calls all stage-0 windows EARLY.
    Raises UserError that names the file and the column or row at fault.
    """
    if not Path(index).is_file():
        raise UserError(f"{index}: not found; it is the run's window index, windows/index.csv")
    table = pd.read_csv(index, dtype=str)
    rows = ["start_row", "skip_rows", "valid_rows"]
    missing = [name for name in ("source", "window_id", *rows) if name not in table.columns]
    if missing:
        raise UserError(f"{index}: no column {', '.join(missing)}; it must be a window index, as `freeze` writes it")
    table[rows] = table[rows].apply(pd.to_numeric, errors="coerce")
    strata = {}
    for number, row in enumerate(table.itertuples(index=False), start=2):
        if not row.skip_rows <= row.start_row < row.valid_rows:
            raise UserError(
                f"{index}: line {number}: start_row is {row.start_row}, must lie between skip_rows "
                f"({row.skip_rows}) and valid_rows ({row.valid_rows}); freeze the windows anew"
            )
        third = 3 * (row.start_row - row.skip_rows) // (row.valid_rows - row.skip_rows)
        strata[row.source, row.window_id] = STRATA[int(third)]
    return strata


def _peak_rate(time_s: np.ndarray, duration_s: float) -> float:
    if duration_s == 0:
        return np.nan
    counts, _ = np.histogram(time_s, bins=SLICES, range=(np.min(time_s), np.max(time_s)))
    return np.max(counts) / (duration_s / SLICES)


def _idle_share(gaps_s: np.ndarray, duration_s: float) -> float:
    if duration_s == 0:
        return np.nan
    return min(np.sum(gaps_s[gaps_s > 3 * np.mean(gaps_s)]) / duration_s, 1.0)


def _spearman(first: np.ndarray, second: np.ndarray) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return np.nan
    return stats.spearmanr(first, second).statistic


def _excess_kurtosis(values: np.ndarray) -> float:
    if len(values) < 4 or np.ptp(values) == 0:
        return np.nan
    return stats.kurtosis(values, bias=False)


def _gini(values: np.ndarray) -> float:
    n, total = len(values), np.sum(values)
    ranks = np.arange(1, n + 1)
    return np.sum((2 * ranks - n - 1) * np.sort(values)) / (n * total) if total else np.nan

"""Compare the embedded traces with the published windows that they were fitted to."""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from servestudy.traces.registry import load_sources
from servestudy.traces.synthesize import MICROSECONDS, draw_requests, embedded_parameters
from servestudy.windows.descriptors import descriptors
from servestudy.windows.sampling import WINDOW_REQUESTS, plan_windows

PROJECT = Path(__file__).parents[1]
PREFIXES = {"azure_like": "azure_llm_2024", "bailian_like": "bailian_qwen", "burstgpt_like": "burstgpt"}
PERCENTILES = (10, 25, 50, 75, 90, 99)
LONG_PROMPT_TOKENS = 2560  # the longest prompt that vLLM v0.1.0 admits with its default token budget

# How far a descriptor of an embedded trace may lie from that of the published windows. BurstGPT's token counts
# hardly vary, so that a wide bound would not test them.
TOKENS_FACTOR = {"azure_like": 1.25, "bailian_like": 1.25, "burstgpt_like": 1.1}
TAIL_EXPONENT = 1.5  # 99th percentiles rest on four requests: the factor to this power
GAP_QUARTILES_FACTOR = 1.7  # two standard errors of a quartile of 199 gaps: 1.5 to 1.9
GAP_CV_FACTOR = 1.25
ZERO_GAPS_DIFFERENCE = 0.02
RANK_CORRELATION_DIFFERENCE = 0.1


def read_windows(folder: Path, source_id: str) -> list[pd.DataFrame]:
    """The published windows of one source, in the order of their file names."""
    return [pd.read_csv(path) for path in sorted(folder.glob(f"{PREFIXES[source_id]}_*.csv"))]


def pooled_tokens(windows: list[pd.DataFrame]) -> tuple[np.ndarray, np.ndarray]:
    """Prompt and output tokens of all requests of some windows."""
    pooled = pd.concat(windows)
    return pooled["prompt_tokens"].to_numpy(), pooled["output_tokens"].to_numpy()


def measure_tokens(prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> dict[str, float]:
    """Percentiles of both counts, share of long prompts and rank correlation of some requests."""
    measured = {
        f"{name}_p{percent}": float(np.percentile(tokens, percent))
        for name, tokens in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens))
        for percent in PERCENTILES
    }
    measured["share_of_long_prompts"] = float(np.mean(prompt_tokens > LONG_PROMPT_TOKENS))
    measured["rank_correlation"] = float(stats.spearmanr(prompt_tokens, output_tokens).statistic)
    return measured


def measure_gaps(arrival_s: np.ndarray) -> dict[str, float]:
    """Quartiles and variation of the gaps between arrivals, and the share of gaps that are zero."""
    gaps_s = np.diff(arrival_s)
    quartiles = {f"gap_p{percent}_s": float(np.percentile(gaps_s, percent)) for percent in (25, 50, 75)}
    return quartiles | {
        "gap_cv": float(gaps_s.std() / gaps_s.mean()),
        "share_of_zero_gaps": float(np.mean(gaps_s == 0)),
    }


def rate_rps(arrival_s: np.ndarray) -> float:
    """Arrivals per second: one over the mean gap."""
    return float(1 / np.diff(arrival_s).mean())


def bounds(source_id: str, name: str, value: float) -> list[float]:
    """Lowest and highest allowed value of a descriptor, to three significant digits."""
    if name == "rank_correlation":
        limits = value - RANK_CORRELATION_DIFFERENCE, value + RANK_CORRELATION_DIFFERENCE
    elif name == "share_of_zero_gaps":
        limits = max(0, value - ZERO_GAPS_DIFFERENCE), value + ZERO_GAPS_DIFFERENCE
    else:
        if name == "gap_cv":
            factor = GAP_CV_FACTOR
        elif name.startswith("gap"):
            factor = GAP_QUARTILES_FACTOR
        else:
            factor = TOKENS_FACTOR[source_id] ** (TAIL_EXPONENT if name.endswith("_p99") else 1)
        limits = value / factor, value * factor
    return [float(f"{limit:.3g}") for limit in limits]


def bounds_of(source_id: str, windows: list[pd.DataFrame]) -> dict:
    """The `bounds` of one source in embedded.yaml, from its published windows."""
    tokens = measure_tokens(*pooled_tokens(windows))
    gaps = []
    for window in windows:
        arrival_s = window["arrival_s"].to_numpy()
        measured = measure_gaps(arrival_s)
        limits = {name: bounds(source_id, name, value) for name, value in measured.items()}
        gaps.append({"rate_rps": float(f"{rate_rps(arrival_s):.3g}")} | limits)
    return {"tokens": {name: bounds(source_id, name, value) for name, value in tokens.items()}, "gaps": gaps}


def embedded_tokens(source: dict) -> tuple[np.ndarray, np.ndarray]:
    """Prompt and output tokens of an embedded trace, of those kinds only that the published windows hold."""
    _, kind, prompt_tokens, output_tokens = draw_requests(source)
    names = [k["name"] for k in source["kinds"]]
    held = np.isin(kind, [names.index(name) for name in source["kinds_in_fitted_windows"]])
    return prompt_tokens[held], output_tokens[held]


def embedded_arrivals_at(source: dict, rate_rps: float) -> np.ndarray:
    """Arrivals (s) of an embedded trace whose every regime has this rate, without slower kinds of request."""
    regimes = source["regimes"] | {"rate_rps": [rate_rps, rate_rps]}
    kinds = [kind for kind in source["kinds"] if kind["slowdown"] == 1]
    return draw_requests(source | {"regimes": regimes, "kinds": kinds})[0] / MICROSECONDS


def embedded_windows(source_id: str) -> pd.DataFrame:
    """Descriptors of the windows that the published sampling rule cuts from an embedded trace, one a row."""
    arrival_us, _, prompt_tokens, output_tokens = draw_requests(embedded_parameters()[source_id])
    registered = load_sources(PROJECT / "config" / "sources.tsv")[source_id]
    rows = []
    for window in plan_windows(source_id, len(arrival_us), registered.skip_rows, registered.sampling_seed):
        cut = slice(window.start_row, window.start_row + WINDOW_REQUESTS)
        rows.append(descriptors(arrival_us[cut] / MICROSECONDS, prompt_tokens[cut], output_tokens[cut]))
    return pd.DataFrame(rows)


def coverage(values: pd.Series, published: tuple[float, float]) -> tuple[float, float]:
    """Part of the published range that the windows span, and share of the windows inside the range."""
    low, high = published
    spanned = (min(values.max(), high) - max(values.min(), low)) / (high - low)
    return max(0.0, spanned), float(values.between(low, high).mean())


def shown(value: float) -> str:
    """Three significant digits, without an exponent for token counts."""
    return f"{float(f'{value:.3g}'):g}"


def report(folder: Path) -> str:
    """Two Markdown tables: the fitted windows against the embedded traces, and ranges over windows."""
    return f"{fit_table(folder)}\n\n{range_table()}"


def fit_table(folder: Path) -> str:
    """Each descriptor in the published windows and in the embedded trace, with the bounds of the tests."""
    lines = ["| source | descriptor | published windows | embedded trace | bounds |", "|---|---|---|---|---|"]

    def add(source_id: str, where: str, data: dict, embedded: dict, bounds: dict) -> None:
        for name, value in data.items():
            low, high = bounds[name]
            cells = source_id, name + where, shown(value), shown(embedded[name]), f"{low:g} ... {high:g}"
            lines.append(f"| {' | '.join(cells)} |")

    for source_id, source in embedded_parameters().items():
        windows = read_windows(folder, source_id)
        add(
            source_id,
            "",
            measure_tokens(*pooled_tokens(windows)),
            measure_tokens(*embedded_tokens(source)),
            source["bounds"]["tokens"],
        )
        for window, bounds in zip(windows, source["bounds"]["gaps"], strict=True):
            rate = bounds["rate_rps"]
            add(
                source_id,
                f" at {rate:g} requests/s",
                measure_gaps(window["arrival_s"].to_numpy()),
                measure_gaps(embedded_arrivals_at(source, rate)),
                bounds,
            )
    return "\n".join(lines)


def range_table() -> str:
    """Each descriptor's range over ten published windows and over the windows of the embedded trace."""
    header = (
        "source",
        "window descriptor",
        "published, 10 windows",
        "embedded: min / median / max",
        "spanned",
        "inside",
    )
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for source_id, source in embedded_parameters().items():
        windows = embedded_windows(source_id)
        for name, published in source["published_windows"].items():
            spanned, inside = coverage(windows[name], published)
            spread = " / ".join(shown(windows[name].agg(f)) for f in ("min", "median", "max"))
            limits = f"{published[0]:g} ... {published[1]:g}"
            cells = source_id, name, limits, spread, f"{spanned:.2f}", f"{inside:.2f}"
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)

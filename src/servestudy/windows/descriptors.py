"""What a window looks like in numbers: the descriptor fields of the published study's window index."""

import numpy as np

LONG_CONTEXT_TOKENS = 8192
PERCENTILES = (50, 90, 95, 99)


def descriptors(time_s: np.ndarray, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> dict[str, float]:
    """Descriptors of one window; the arrays have one element a request, in any order of time.

    Standard deviations are of the population, percentiles interpolate linearly, gaps are those between
    arrivals in order of time. What is undefined is NaN: rates where all requests arrive at one moment,
    `interarrival_cv` and `burstiness_b` where all gaps are 0, gap statistics of a single request, the
    correlation where one of the two counts is the same in all requests.
    """
    gaps_s = np.diff(np.sort(time_s))
    duration_s = float(np.max(time_s) - np.min(time_s))
    rate_rps = _ratio(len(time_s), duration_s)
    gap_mean_s = float(np.mean(gaps_s)) if len(gaps_s) else np.nan
    gap_sd_s = float(np.std(gaps_s)) if len(gaps_s) else np.nan
    prompt = prompt_tokens.astype(np.float64)
    output = output_tokens.astype(np.float64)
    return {
        "duration_s": duration_s,
        "arrival_rate_rps": rate_rps,
        "interarrival_mean_s": gap_mean_s,
        "interarrival_cv": _ratio(gap_sd_s, gap_mean_s),
        "burstiness_b": _ratio(gap_sd_s - gap_mean_s, gap_sd_s + gap_mean_s),
        **_token_statistics("prompt_tokens", prompt),
        **_token_statistics("output_tokens", output),
        "prompt_output_correlation": _correlation(prompt, output),
        "long_context_fraction": float(np.mean(prompt + output >= LONG_CONTEXT_TOKENS)),
        "concurrency_proxy": rate_rps * float(np.mean(output)),
        "kv_pressure_proxy": float(np.mean(prompt + output)),
    }


def _token_statistics(name: str, tokens: np.ndarray) -> dict[str, float]:
    mean = float(np.mean(tokens))
    statistics = {f"{name}_mean": mean}
    for percent, value in zip(PERCENTILES, np.percentile(tokens, PERCENTILES), strict=True):
        statistics[f"{name}_p{percent}"] = float(value)
    statistics[f"{name}_cv"] = _ratio(float(np.std(tokens)), mean)
    return statistics


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's; NaN for fewer than two requests or where one is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return np.nan
    return float(np.corrcoef(first, second)[0, 1])


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else np.nan

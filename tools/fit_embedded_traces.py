"""Fit the parameters of the embedded traces, or report how well the embedded traces fit.

    python tools/fit_embedded_traces.py WINDOWS BURSTGPT            print the fitted parameters as YAML
    python tools/fit_embedded_traces.py WINDOWS BURSTGPT --report   compare the embedded traces with the data

WINDOWS is a folder of windows of the published portability study (`azure_llm_2024_*.csv`, `bailian_qwen_*.csv`,
`burstgpt_*.csv`; columns index, arrival_s, prompt_tokens, output_tokens). BURSTGPT is a CSV file of the public
BurstGPT trace with failed requests (response 0). The result is kept in src/servestudy/traces/embedded.yaml.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from embedded_trace_quality import bounds_of, rate_rps, read_windows, report
from scipy import optimize, stats

from servestudy.traces.synthesize import MICROSECONDS, embedded_parameters, gathered_arrivals, steady_arrivals
from servestudy.windows.sampling import WINDOW_REQUESTS

EXPECTED_RANGE_OF_TEN = 3.08  # of ten draws from a standard normal distribution, in standard deviations
SMALLEST_LOG_SD = 0.05  # keeps a component from shrinking onto one token count
WINDOWS_WITHOUT_LONG_JOBS = 0.4  # in four of ten published BurstGPT windows all schedulers tie
FITTED_KINDS = {
    "azure_like": ["question", "long answer", "template", "verdict"],
    "bailian_like": ["mixed", "long template", "short template"],
}


def published(source_id: str) -> dict[str, list[float]]:
    """Smallest and largest descriptor of the ten windows whose descriptors the study published."""
    return embedded_parameters()[source_id]["published_windows"]


def fit_mixture(log_tokens: np.ndarray, components: int, starts: int = 8, rounds: int = 300):
    """Shares, means and covariances of a bivariate normal mixture, largest first.

    Expectation-maximisation from some random starts, each until a round gains less than 1e-6 in log-likelihood.
    """
    rng = np.random.default_rng(0)
    best = (-np.inf,)
    for _ in range(starts):
        mean = log_tokens[rng.choice(len(log_tokens), components, replace=False)]
        covariance = np.array([np.cov(log_tokens.T)] * components)
        share = np.full(components, 1 / components)
        reached = -np.inf
        for _ in range(rounds):
            parts = zip(share, mean, covariance, strict=True)
            log_density = np.array(
                [np.log(w) + stats.multivariate_normal.logpdf(log_tokens, m, c) for w, m, c in parts]
            )
            total = np.logaddexp.reduce(log_density)
            belongs = np.exp(log_density - total)
            count = belongs.sum(axis=1)
            share, mean = count / len(log_tokens), belongs @ log_tokens / count[:, None]
            away = log_tokens[None] - mean[:, None]
            covariance = np.einsum("kn,kni,knj->kij", belongs, away, away) / count[:, None, None]
            covariance += SMALLEST_LOG_SD**2 * np.eye(2)
            if abs(total.sum() - reached) < 1e-6:
                break
            reached = total.sum()
        if total.sum() > best[0]:
            order = np.argsort(-share)
            best = (total.sum(), share[order], mean[order], covariance[order])
    return best[1:]


def fit_kinds(windows: list[pd.DataFrame], names: list[str]) -> list[dict]:
    """Request kinds as bivariate log-normals, fitted to the pooled windows.

    Whole token counts are spread over their unit interval, so that ties do not look like certainty.
    """
    tokens = pd.concat(windows)[["prompt_tokens", "output_tokens"]].to_numpy()
    tokens = tokens + np.random.default_rng(0).uniform(-0.5, 0.5, tokens.shape)
    shares, means, covariances = fit_mixture(np.log(tokens), len(names))
    kinds = []
    for name, share, mean, covariance in zip(names, shares, means, covariances, strict=True):
        sd = np.sqrt(np.diag(covariance))
        prompt, output = ({"fixed": 0, "median": np.exp(m), "log_sd": s} for m, s in zip(mean, sd, strict=True))
        kinds.append(kind(name, share, prompt, output, covariance[0, 1] / sd.prod()))
    return kinds


def kind(name: str, share: float, prompt: dict, output: dict, correlation: float, slowdown: float = 1) -> dict:
    return {
        "name": name, "share": share, "slowdown": slowdown,
        "prompt_tokens": prompt, "output_tokens": output, "correlation": correlation, "prompt_level_log_sd": 0,
    }  # fmt: skip


def mean_tokens(kind: dict, column: str) -> float:
    return kind[column]["fixed"] + kind[column]["median"] * np.exp(kind[column]["log_sd"] ** 2 / 2)


def drift_of_level(first: dict, windows: list[pd.DataFrame], in_published: list[float]) -> float:
    """Log-sd of the level of the first kind's prompts for which ten windows show the published range of means.

    The part of the range that 200 independent requests explain is taken off; 0 if that explains it all.
    """
    window_sd = (in_published[1] - in_published[0]) / EXPECTED_RANGE_OF_TEN
    variance = window_sd**2 - pd.concat(windows)["prompt_tokens"].var(ddof=0) / WINDOW_REQUESTS
    return np.sqrt(max(0.0, variance)) / (first["share"] * mean_tokens(first, "prompt_tokens"))


def fit_azure(windows: list[pd.DataFrame]) -> dict:
    kinds = fit_kinds(windows, FITTED_KINDS["azure_like"])
    ranges = published("azure_like")
    target = np.mean(ranges["output_tokens_mean"])

    def excess(share: float) -> float:
        kinds[1]["share"] = share
        shares = np.array([k["share"] for k in kinds])
        return shares @ [mean_tokens(k, "output_tokens") for k in kinds] / shares.sum() - target

    optimize.brentq(excess, 0.05, 0.5)  # leaves the solution in `kinds`
    total = sum(k["share"] for k in kinds)
    for k in kinds:
        k["share"] /= total
    kinds[0]["prompt_level_log_sd"] = drift_of_level(kinds[0], windows, ranges["prompt_tokens_mean"])
    return {
        "kinds": kinds,
        "rate_rps": [limit / target for limit in ranges["concurrency_proxy"]],
        "arrivals": fit_gathered(windows),
    }


def fit_gathered(windows: list[pd.DataFrame]) -> dict:
    """Instants a cycle and delay whose gaps come nearest to the windows' gaps, in the logarithm of quantiles.

    The cycle of 0.25 s is the common period of the arrivals in both windows: their phases in 1/4 s, and in its
    fractions down to 1/40 s, are far from uniform.
    """
    levels, resolution_s = np.arange(0.05, 1.0, 0.05), 2e-4
    regime = np.arange(40_000) // 500

    def log_quantiles(gaps_s: np.ndarray) -> np.ndarray:
        return np.log(np.quantile(gaps_s, levels) + resolution_s)

    def misfit(model: dict) -> float:
        errors = []
        for window in windows:
            gaps_s = np.diff(window["arrival_s"])
            rate = np.full(regime[-1] + 1, 1 / gaps_s.mean())
            drawn = gathered_arrivals(model, rate, regime, np.random.default_rng(0))
            errors.append(log_quantiles(np.diff(drawn) / MICROSECONDS) - log_quantiles(gaps_s))
        return float(np.mean(np.square(errors)))

    grid = product((3, 4, 5, 6), (1000, 1500, 2000, 2500, 3000, 4000), (0.75, 1.0, 1.25, 1.5, 1.75, 2.0))
    models = [
        {"model": "gathered", "cycle_us": 250_000, "instants": n, "delay_us": {"median": m, "log_sd": sd}}
        for n, m, sd in grid
    ]
    return min(models, key=misfit)


def fit_bailian(windows: list[pd.DataFrame]) -> dict:
    kinds = fit_kinds(windows, FITTED_KINDS["bailian_like"])
    in_published = published("bailian_like")["prompt_tokens_mean"]
    kinds[0]["prompt_level_log_sd"] = drift_of_level(kinds[0], windows, in_published)
    rates = [rate_rps(w["arrival_s"].to_numpy()) for w in windows]
    return {
        "kinds": kinds,
        "rate_rps": [min(rates), max(rates)],
        "arrivals": {"model": "steady", "gap_shape": 1, "clock_us": 1000},
    }


def fit_burstgpt(windows: list[pd.DataFrame], conversations: pd.DataFrame) -> dict:
    ranges = published("burstgpt_like")
    template = fit_template(windows)
    largest_prompt, largest_output = (ranges[f"{c}_tokens_mean"][1] for c in ("prompt", "output"))
    answers = conversations["Response tokens"]
    output = lognormal_of(largest_output, answers.std(ddof=0) / answers.mean())
    prompts = pd.concat(windows)["prompt_tokens"]

    def largest_cv_of_a_mix(cv: float) -> float:
        share = np.linspace(0, 1, 1001)
        mean = share * largest_prompt + (1 - share) * prompts.mean()
        square = share * largest_prompt**2 * (1 + cv**2) + (1 - share) * (prompts**2).mean()
        return (np.sqrt(square - mean**2) / mean).max()

    cv = optimize.brentq(lambda cv: largest_cv_of_a_mix(cv) - ranges["prompt_tokens_cv"][1], 0.05, 0.6)
    share, concentration = share_of_long_jobs(WINDOWS_WITHOUT_LONG_JOBS)
    template["share"] = 1 - share
    slowdown = largest_output / template["output_tokens"]["median"]
    long_job = kind("long job", share, lognormal_of(largest_prompt, cv), output, 0, slowdown)
    return {
        "kinds": [template, long_job],
        "mix_concentration": concentration,
        "rate_rps": [limit / template["output_tokens"]["median"] for limit in ranges["concurrency_proxy"]],
        "arrivals": fit_steady(windows),
    }


def fit_template(windows: list[pd.DataFrame]) -> dict:
    """BurstGPT's API call: a fixed text plus a log-normal part whose level differs between windows."""

    def of_fixed(fixed: int) -> tuple[float, list[float], float]:
        logs = [np.log(w["prompt_tokens"] - fixed) for w in windows]
        levels = [float(x.mean()) for x in logs]
        sd = np.sqrt(np.mean([x.var(ddof=0) for x in logs]))
        likelihood = -sum(len(x) * np.log(sd) + x.sum() for x in logs)
        return likelihood, levels, sd

    smallest = min(w["prompt_tokens"].min() for w in windows)
    fixed = max(range(smallest - 50, smallest), key=lambda f: of_fixed(f)[0])
    _, levels, sd = of_fixed(fixed)
    outputs = pd.concat(windows)["output_tokens"]
    usual = outputs.mode()[0]
    other = np.mean(outputs != usual)
    output_sd = np.log((usual + 0.5) / usual) / stats.norm.isf(other / 2)
    prompt = {"fixed": fixed, "median": np.exp(np.mean(levels)), "log_sd": sd}
    output = {"fixed": 0, "median": int(usual), "log_sd": output_sd}
    template = kind("template", 1, prompt, output, 0)
    return template | {"prompt_level_log_sd": np.std(levels, ddof=1)}


def lognormal_of(mean: float, cv: float) -> dict:
    """Median and log-sd of the log-normal with this mean and coefficient of variation."""
    log_sd = np.sqrt(np.log1p(cv**2))
    return {"fixed": 0, "median": mean / np.exp(log_sd**2 / 2), "log_sd": log_sd}


def share_of_long_jobs(free_of_them: float) -> tuple[float, float]:
    """Mean and concentration of the beta distribution of a regime's share of long jobs.

    `free_of_them` is the share of windows in which all schedulers tie, for want of a long job: less than one
    is expected in 200 requests. One window in ten is nearly all long jobs: over nine requests in ten.
    """

    def misfit(log_ab: np.ndarray) -> list[float]:
        beta = stats.beta(*np.exp(log_ab))
        return [beta.cdf(1 / WINDOW_REQUESTS) - free_of_them, beta.sf(0.9) - 0.1]

    a, b = np.exp(optimize.fsolve(misfit, np.log([0.1, 0.4])))
    return a / (a + b), a + b


def fit_steady(windows: list[pd.DataFrame]) -> dict:
    """Shape of gamma gaps, cut to whole seconds, whose counts per second vary as the windows' counts do."""
    counts = [np.bincount(w["arrival_s"].astype(int))[1:-1] for w in windows]

    def misfit(shape: int) -> float:
        errors = []
        for c in counts:
            model = {"model": "steady", "gap_shape": shape, "clock_us": MICROSECONDS}
            rng = np.random.default_rng(0)
            times = steady_arrivals(model, np.array([c.mean()]), np.zeros(20_000, dtype=int), rng)
            drawn = np.bincount(times // MICROSECONDS)[1:-1]
            errors.append(np.log(drawn.var() / drawn.mean()) - np.log(c.var() / c.mean()))
        return float(np.mean(np.square(errors)))

    return {"model": "steady", "gap_shape": min(range(1, 25), key=misfit), "clock_us": MICROSECONDS}


def fit(folder: Path, burstgpt: Path) -> dict[str, dict]:
    """All fitted parameters and the bounds of the fit by source id, to three significant digits."""
    table = pd.read_csv(burstgpt)
    conversations = table[(table["Log Type"] == "Conversation log") & (table["Response tokens"] > 0)]
    windows = {source_id: read_windows(folder, source_id) for source_id in embedded_parameters()}
    for source_id, found in windows.items():
        if not found:
            raise SystemExit(f"{folder}: no windows of {source_id}")
    fitted = {
        "azure_like": fit_azure(windows["azure_like"]),
        "bailian_like": fit_bailian(windows["bailian_like"]),
        "burstgpt_like": fit_burstgpt(windows["burstgpt_like"], conversations),
    }
    return {name: rounded(fitted[name]) | {"bounds": bounds_of(name, windows[name])} for name in fitted}


def rounded(value):
    """Every float in a nested structure to three significant digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.3g}") if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("windows", type=Path, metavar="WINDOWS")
    parser.add_argument("burstgpt", type=Path, metavar="BURSTGPT")
    parser.add_argument("--report", action="store_true", help="print the comparison instead of the fit")
    arguments = parser.parse_args()
    if arguments.report:
        print(report(arguments.windows))
    else:
        fitted = fit(arguments.windows, arguments.burstgpt)
        print(yaml.safe_dump(fitted, sort_keys=False, default_flow_style=None, width=110), end="")


if __name__ == "__main__":
    main()

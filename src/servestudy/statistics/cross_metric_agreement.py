"""Agreement of the rankings by two metrics, in each source and region.

Source: the published study's extension. tau-b and rho are SciPy's, on oriented means, from three common schedulers on.
The interval resamples windows, one draw for both metrics, over the windows with any value in order of their names.
The study's best scheduler is the first by name among equals; whether the sets of equally best ones meet stands beside.
"""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import ConstantInputWarning, kendalltau, spearmanr

from servestudy.statistics.bootstrap import RESAMPLES, percentile_interval, resampled_means, tau_b
from servestudy.statistics.cross_metric import IDENTITIES, Condition, conditions
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

LEAST_SCHEDULERS = 3

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("metric_a", pa.string(), "first metric of the pair, by name"),
        column("metric_b", pa.string(), "second metric"),
        column("identity", pa.bool_(), "the two metrics rank alike by definition if all weights are equal"),
        column("n_schedulers", pa.int32(), "schedulers with a value on both metrics; below 3 nothing is compared"),
        column("n_excluded", pa.int32(), "undefined (scheduler, window) values, summed over both metrics"),
        column("tau_b", pa.float64(), "Kendall's tau-b; NaN if a side is constant or has fewer than 3 schedulers"),
        column("tau_p", pa.float64(), "its two-sided p-value"),
        column("tau_low", pa.float64(), "lower end of the 95 % percentile interval of tau-b over resampled windows"),
        column("tau_high", pa.float64(), "upper end"),
        column("n_resamples", pa.int32(), "resamples of the windows"),
        column("n_resamples_undefined", pa.int32(), "resamples without a tau-b, left out of the interval"),
        column("rho", pa.float64(), "Spearman's rho; NaN as tau-b"),
        column("rho_p", pa.float64(), "its two-sided p-value"),
        column("best_a", pa.string(), "best scheduler by metric_a, first by name among equals; empty if not compared"),
        column("best_b", pa.string(), "best scheduler by metric_b"),
        column("top1_agrees", pa.float64(), "1 if best_a is best_b, else 0 (published rule); NaN if not compared"),
        column("n_best_a", pa.int32(), "schedulers that equal the best by metric_a"),
        column("n_best_b", pa.int32(), "schedulers that equal the best by metric_b"),
        column("n_best_shared", pa.int32(), "schedulers that are both"),
        column("top1_agrees_tie_aware", pa.float64(), "1 if a scheduler is both, else 0; NaN if not compared"),
    ]
)


def resampled_taus(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """tau-b of each resample of two metrics [scheduler, window]; one draw of windows serves both."""
    n_windows = a.shape[1]
    if not n_windows:
        return np.full(RESAMPLES, np.nan)
    places = rng.integers(0, n_windows, size=(RESAMPLES, n_windows))
    means_a, means_b = resampled_means(a, places), resampled_means(b, places)
    taus = tau_b(means_a, means_b)
    n_common = (~np.isnan(means_a) & ~np.isnan(means_b)).sum(axis=0)
    return np.where(n_common >= LEAST_SCHEDULERS, taus, np.nan)


def correlations(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """SciPy's tau-b and rho with their two-sided p-values; all NaN if a side is constant or has under 3 schedulers."""
    tau = rho = (np.nan, np.nan)
    if len(a) >= LEAST_SCHEDULERS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstantInputWarning)  # NaN, as declared
            tau, rho = kendalltau(a, b), spearmanr(a, b)
    return {"tau_b": tau[0], "tau_p": tau[1], "rho": rho[0], "rho_p": rho[1]}


def best(means_a: np.ndarray, means_b: np.ndarray, schedulers: np.ndarray) -> dict[str, float | str]:
    """The best schedulers by each metric and whether they agree, first by name and tie-aware."""
    if len(schedulers) < LEAST_SCHEDULERS:
        nothing = dict.fromkeys(["n_best_a", "n_best_b", "n_best_shared"], 0)
        return {"best_a": "", "best_b": "", "top1_agrees": np.nan, **nothing, "top1_agrees_tie_aware": np.nan}
    best_a, best_b = (set(schedulers[means == means.max()]) for means in (means_a, means_b))
    return {
        "best_a": min(best_a),
        "best_b": min(best_b),
        "top1_agrees": float(min(best_a) == min(best_b)),
        "n_best_a": len(best_a),
        "n_best_b": len(best_b),
        "n_best_shared": len(best_a & best_b),
        "top1_agrees_tie_aware": float(bool(best_a & best_b)),
    }


def _agreement(condition: Condition, metric_a: str, metric_b: str) -> dict:
    means_a, means_b = condition.means[metric_a], condition.means[metric_b]
    common = ~np.isnan(means_a) & ~np.isnan(means_b)
    means_a, means_b, schedulers = means_a[common], means_b[common], np.array(condition.schedulers)[common]
    a, b = condition.values[metric_a], condition.values[metric_b]
    has_value = ~np.isnan(np.concatenate([a, b])).all(axis=0)
    by_name = [place for place in np.argsort(condition.windows) if has_value[place]]
    interval = percentile_interval(
        resampled_taus(a[:, by_name], b[:, by_name], condition.generator(metric_a, metric_b))
    )
    return {
        "source": condition.source,
        "region": condition.region,
        "metric_a": metric_a,
        "metric_b": metric_b,
        "identity": (metric_a, metric_b) in IDENTITIES,
        "n_schedulers": len(schedulers),
        "n_excluded": int(np.isnan(a).sum() + np.isnan(b).sum()),
        **correlations(means_a, means_b),
        "tau_low": interval.low,
        "tau_high": interval.high,
        "n_resamples": RESAMPLES,
        "n_resamples_undefined": interval.dropped,
        **best(means_a, means_b, schedulers),
    }


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: sources by name, regions in the study's order, metric pairs by name."""
    rows = [_agreement(condition, *pair) for condition in conditions(values) for pair in condition.metric_pairs]
    return pd.DataFrame(rows, columns=SCHEMA.names)

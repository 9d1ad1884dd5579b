"""Where a scheduler stands in the panel: ranks, agreement of sources with and without it, reversals, wins and losses.

Intervals are those of the published study: windows are resampled, 2,000 times, one draw for all schedulers.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.seeds import stream
from servestudy.statistics import reversals
from servestudy.statistics.bootstrap import draw, percentile_interval, present, resampled_means, tau_b
from servestudy.statistics.reversal_rules import paired_differences
from servestudy.statistics.window_values import HIGHER_IS_BETTER, WindowValues, mean_of_defined

COMPARED_METRICS = (PRIMARY_METRIC, "mean_latency", "p95_ttft")
"""Metrics of the reversals, wins and losses: goodput, latency and time to the first token."""


@dataclass(frozen=True)
class Comparison:
    """Tables, one row a condition.

    ranks: source, region, metric, mean, rank, rank_low, rank_high, n_schedulers. tau: metric, region, source_x,
    source_y, tau_without, tau_with, change, change_low, change_high. reversals: rows of `statistics.reversals` with the
    scheduler in them, oriented rule. duels: opponent, metric, source, region, result (1 won, -1 lost, 0 neither).
    """

    name: str
    n_windows: dict[str, int]
    schedulers: tuple[str, ...]
    ranks: pd.DataFrame
    tau: pd.DataFrame
    reversals: pd.DataFrame
    duels: pd.DataFrame


def compare_with_panel(values: WindowValues, name: str) -> Comparison:
    """`values` has the panel and the scheduler `name`."""
    compared = only_metrics(values, [metric for metric in COMPARED_METRICS if metric in values.metrics])
    return Comparison(
        name,
        {source: len(windows) for source, windows in values.windows.items()},
        values.schedulers,
        _ranks(values, name),
        _tau(values, name),
        _reversals(compared, name),
        _duels(compared, name),
    )


def only_metrics(values: WindowValues, metrics: list[str]) -> WindowValues:
    """The same for these metrics."""
    places = [values.metrics.index(metric) for metric in metrics]
    return replace(values, metrics=tuple(metrics), values={k: array[:, places] for k, array in values.values.items()})


def _ranks(values: WindowValues, name: str) -> pd.DataFrame:
    place = values.schedulers.index(name)
    rows = []
    for source in values.sources:
        for region in values.regions:
            for metric in values.metrics:
                condition = values.of(source, region, metric)
                means = np.array([mean_of_defined(row) for row in condition])
                there = present(condition)
                low = high = np.nan
                if there.shape[1]:
                    (places,) = draw(stream("rank", source, region, metric), there.shape[1])
                    low, high, _ = percentile_interval(rank_of(resampled_means(there, places), place, metric))
                rank = float(rank_of(means[:, np.newaxis], place, metric)[0])
                n_schedulers = int(np.isfinite(means).sum())
                rows.append((source, region, metric, means[place], rank, low, high, n_schedulers))
    names = ["source", "region", "metric", "mean", "rank", "rank_low", "rank_high", "n_schedulers"]
    return pd.DataFrame(rows, columns=names)


def rank_of(means: np.ndarray, place: int, metric: str) -> np.ndarray:
    """1 + schedulers that are better + half of those that are equal, in each column of [scheduler, resample].

    NaN where the scheduler itself has no value; others without one do not count.
    """
    oriented = means if HIGHER_IS_BETTER[metric] else -means
    own = oriented[place]
    better, equal = (oriented > own).sum(axis=0), (oriented == own).sum(axis=0) - 1
    return np.where(np.isnan(own), np.nan, 1 + better + equal / 2)


def _tau(values: WindowValues, name: str) -> pd.DataFrame:
    others = [place for place, other in enumerate(values.schedulers) if other != name]
    rows = []
    for metric in values.metrics:
        for region in values.regions:
            for pair in combinations(values.sources, 2):
                sides = [values.of(source, region, metric) for source in pair]
                means = [np.array([[mean_of_defined(row)] for row in side]) for side in sides]
                without, with_it = _taus(means, others)
                low = high = np.nan
                there = [present(side) for side in sides]
                if all(side.shape[1] for side in there):
                    places = draw(stream("tau", metric, region, *pair), *(side.shape[1] for side in there))
                    drawn = [resampled_means(*side) for side in zip(there, places, strict=True)]
                    resampled_without, resampled_with = _taus(drawn, others)
                    low, high, _ = percentile_interval(resampled_with - resampled_without)
                change = float(with_it[0] - without[0])
                rows.append((metric, region, *pair, float(without[0]), float(with_it[0]), change, low, high))
    names = [
        "metric",
        "region",
        "source_x",
        "source_y",
        "tau_without",
        "tau_with",
        "change",
        "change_low",
        "change_high",
    ]
    return pd.DataFrame(rows, columns=names)


def _taus(sides: list[np.ndarray], others: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """tau-b of the panel without and with the scheduler, in each column."""
    x, y = sides
    return tau_b(x[others], y[others]), tau_b(x, y)


def _reversals(values: WindowValues, name: str) -> pd.DataFrame:
    table = reversals.analyse(values)
    its_own = (table["scheduler_a"] == name) | (table["scheduler_b"] == name)
    return table[its_own & (table["rule"] == "oriented")].reset_index(drop=True)


def _duels(values: WindowValues, name: str) -> pd.DataFrame:
    place = values.schedulers.index(name)
    rows = []
    for metric in values.metrics:
        sign = 1 if HIGHER_IS_BETTER[metric] else -1
        for source in values.sources:
            for region in values.regions:
                condition = values.of(source, region, metric)
                for other, opponent in enumerate(values.schedulers):
                    if other != place:
                        differences = sign * paired_differences(condition, (place, other))
                        rng = stream("duel", metric, source, region, opponent)
                        low, high, _ = reversals.side_test(differences, rng)
                        rows.append((opponent, metric, source, region, int(low > 0) - int(high < 0)))
    return pd.DataFrame(rows, columns=["opponent", "metric", "source", "region", "result"])

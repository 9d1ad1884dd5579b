"""Resampling of windows, over all resamples at once, with the values of the one-at-a-time rule to the last bit.

Source: the published study. A resample draws as many windows as there are, with replacement; one draw serves all
schedulers. A scheduler's value is the NumPy mean of its defined values in the order drawn. Intervals are percentiles
without correction. The study leaves out resamples without a tau and does not say how many: here they are counted.
"""

from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
FALSE_DISCOVERY_RATE = 0.05


class Interval(NamedTuple):
    """95 % percentile interval; NaN if no resample has a value. `dropped`: resamples without one."""

    low: float
    high: float
    dropped: int


class AgreementIntervals(NamedTuple):
    tau: Interval
    rho: Interval


def present(values: np.ndarray) -> np.ndarray:
    """Array [scheduler, window] without the windows in which no scheduler has a value: they are not drawn."""
    return values[:, ~np.isnan(values).all(axis=0)]


def draw(rng: np.random.Generator, *sizes: int) -> list[np.ndarray]:
    """Window places [RESAMPLES, size] for each size; a resample draws for the first side, then for the next.

    Takes from the generator what `rng.choice(size, size=size, replace=True)` in that order would take.
    """
    high = sizes[0] if len(set(sizes)) == 1 else np.repeat(sizes, sizes)  # same numbers, but one bound is quicker
    flat = rng.integers(0, high, size=(RESAMPLES, sum(sizes)))
    return np.split(flat, np.cumsum(sizes)[:-1], axis=1)


def resampled_means(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Mean of the defined values of each scheduler [scheduler, resample], NaN where none was drawn.

    `values` is [scheduler, window], `places` [resample, draw].
    """
    with np.errstate(invalid="ignore"):
        means = np.take(values, places, axis=1).mean(axis=-1)
    for scheduler in np.flatnonzero(np.isnan(values).any(axis=1)):
        means[scheduler] = _means_of_defined(values[scheduler, places])
    return means


def _means_of_defined(drawn: np.ndarray) -> np.ndarray:
    """Row means without NaN. Rows with as many values are averaged together: `nanmean` adds in another order."""
    defined = ~np.isnan(drawn)
    counts = defined.sum(axis=1)
    means = np.full(len(drawn), np.nan)
    for count in np.unique(counts[counts > 0]):
        rows = counts == count
        means[rows] = drawn[rows][defined[rows]].reshape(-1, count).mean(axis=1)
    return means


def tau_and_rho(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kendall's tau-b and Spearman's rho of each column of two arrays [scheduler, resample].

    Only schedulers with a value on both sides count; NaN where fewer than two are left or a side is constant. Equal to
    `scipy.stats.kendalltau` and `spearmanr`: sums are whole numbers, then come the same operations in the same order.
    """
    undefined = np.isnan(x) | np.isnan(y)
    signs_x, signs_y = (_pair_signs(np.where(undefined, np.nan, side)) for side in (x, y))
    untied_x, untied_y = ((signs != 0).sum(axis=(1, 2)) // 2 for signs in (signs_x, signs_y))
    concordance = (signs_x * signs_y).sum(axis=(1, 2)) // 2
    # Twice the distance of a rank (average of ties) from the mean rank is the number of smaller less that of larger.
    ranks_x, ranks_y = (signs.sum(axis=2) / 2 for signs in (signs_x, signs_y))
    degrees = (~undefined).sum(axis=0) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = concordance / np.sqrt(untied_x) / np.sqrt(untied_y)
        scale = 1 / degrees
        covariance = (ranks_x * ranks_y).sum(axis=1) * scale
        deviation_x, deviation_y = (np.sqrt((ranks**2).sum(axis=1) * scale) for ranks in (ranks_x, ranks_y))
        rho = covariance / deviation_y / deviation_x
    none = (untied_x == 0) | (untied_y == 0)
    rho[none | (degrees < 1)] = np.nan
    tau[none] = np.nan
    return np.clip(tau, -1, 1), np.clip(rho, -1, 1)


def tau_b(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The tau-b of `tau_and_rho` alone, in a third of the time: each pair of schedulers is compared once."""
    undefined = np.isnan(x) | np.isnan(y)
    first, second = np.triu_indices(len(x), 1)
    signs_x, signs_y = (
        (side[first] > side[second]).view(np.int8) - (side[first] < side[second]).view(np.int8)
        for side in (np.where(undefined, np.nan, x), np.where(undefined, np.nan, y))
    )
    untied_x, untied_y = (np.count_nonzero(signs, axis=0) for signs in (signs_x, signs_y))
    concordance = (signs_x * signs_y).sum(axis=0, dtype=np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = concordance / np.sqrt(untied_x) / np.sqrt(untied_y)
    tau[(untied_x == 0) | (untied_y == 0)] = np.nan
    return np.clip(tau, -1, 1)


def _pair_signs(values: np.ndarray) -> np.ndarray:
    """Signs [resample, scheduler, scheduler] of all differences; 0 where a value is NaN."""
    values = np.ascontiguousarray(values.T)
    first, second = values[:, :, None], values[:, None, :]
    return (first > second).view(np.int8) - (first < second).view(np.int8)


def percentile_interval(statistics: np.ndarray) -> Interval:
    """Interval of one statistic over the resamples; NaN is dropped and counted."""
    defined = statistics[~np.isnan(statistics)]
    dropped = len(statistics) - len(defined)
    if not len(defined):
        return Interval(np.nan, np.nan, dropped)
    low, high = np.quantile(defined, [0.025, 0.975])
    return Interval(float(low), float(high), dropped)


def resampled_agreement(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """tau-b and rho of each resample of two conditions [scheduler, window], drawn independently.

    A side without any value draws nothing and leaves all undefined.
    """
    x, y = present(x), present(y)
    if not x.shape[1] or not y.shape[1]:
        return np.full(RESAMPLES, np.nan), np.full(RESAMPLES, np.nan)
    places_x, places_y = draw(rng, x.shape[1], y.shape[1])
    return tau_and_rho(resampled_means(x, places_x), resampled_means(y, places_y))


def agreement_intervals(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> AgreementIntervals:
    """Intervals of tau-b and rho between two conditions [scheduler, window]."""
    return AgreementIntervals(*map(percentile_interval, resampled_agreement(x, y, rng)))


def adjusted_p(p: np.ndarray) -> np.ndarray:
    """Benjamini-Hochberg adjusted p-values of one family. NaN takes no place in it and stays NaN."""
    from scipy.stats import false_discovery_control  # half a second that most analyses need not pay

    adjusted = np.full(len(p), np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = false_discovery_control(p[tested])
    return adjusted

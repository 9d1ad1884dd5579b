"""When the order of two schedulers counts as reversed between two sources: the steps before any resampling.

Source: the published study. `published` is its rule: the loser is the scheduler with the smaller value on every metric,
and a loser at 0 leaves the pair unestimable before signs are looked at. `oriented` is the corrected rule: the loser is
the scheduler that does worse, signs are looked at first, and a loser at 0 leaves the margin without bound (infinite).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from servestudy.statistics.window_values import HIGHER_IS_BETTER, WindowValues, mean_of_defined

RULES = ("published", "oriented")
PRACTICAL_MARGIN = 0.10  # must be exceeded in both sources

UNDEFINED = "UNDEFINED_UNESTIMABLE"
STABLE = "STABLE_NO_SIGN_CHANGE"
MICROSCOPIC = "MICROSCOPIC_SIGN_CHANGE"
SUPPORTED = "SUPPORTED_PRACTICAL_REVERSAL"
WIDE = "UNSUPPORTED_SIGN_CHANGE_WIDE_CI"
CLASSES = (SUPPORTED, WIDE, MICROSCOPIC, STABLE, UNDEFINED)
TESTED = ""  # not decided yet: the intervals decide between SUPPORTED and WIDE


@dataclass(frozen=True)
class SourcePair:
    """All scheduler pairs of one metric, region and source pair. Arrays are [side, scheduler pair], side x then y."""

    metric: str
    region: str
    sources: tuple[str, str]
    means: np.ndarray  # [scheduler of the pair, side, scheduler pair]

    @property
    def differences(self) -> np.ndarray:
        return self.means[0] - self.means[1]

    def margins(self, rule: str) -> np.ndarray:
        """|difference| over |the loser's value|; 0 for equal values."""
        larger_loses = rule == "oriented" and not HIGHER_IS_BETTER[self.metric]
        loser = np.abs((np.maximum if larger_loses else np.minimum)(*self.means))
        difference = np.abs(self.differences)
        with np.errstate(divide="ignore", invalid="ignore"):
            margin = difference / loser
        if rule == "published":
            margin = np.where(loser == 0, np.nan, margin)
        return np.where(difference == 0, 0.0, margin)

    def classes(self, rule: str) -> np.ndarray:
        """Class of each scheduler pair, TESTED where the intervals must decide. The first rule that applies wins."""
        margins = self.margins(rule)
        signs = np.sign(self.differences)
        return np.select(
            [
                np.isnan(margins).any(axis=0),  # a missing difference has no margin either
                signs[0] * signs[1] != -1,
                (margins <= PRACTICAL_MARGIN).any(axis=0),
            ],
            [UNDEFINED, STABLE, MICROSCOPIC],
            TESTED,
        )


def scheduler_pairs(values: WindowValues) -> list[tuple[int, int]]:
    """Places of the two schedulers of each pair, by name."""
    return list(combinations(sorted(range(len(values.schedulers)), key=values.schedulers.__getitem__), 2))


def source_pairs(values: WindowValues) -> Iterator[SourcePair]:
    """In the study's order: metric, region, source pair."""
    first, second = np.array(scheduler_pairs(values), dtype=int).reshape(-1, 2).T
    for metric in values.metrics:
        for region in values.regions:
            means = {
                source: np.array([mean_of_defined(row) for row in values.of(source, region, metric)])
                for source in values.sources
            }
            for sources in combinations(values.sources, 2):
                sides = np.array([means[source] for source in sources])
                yield SourcePair(metric, region, sources, np.array([sides[:, first], sides[:, second]]))


def paired_differences(condition: np.ndarray, pair: tuple[int, int]) -> np.ndarray:
    """First less second scheduler of a condition [scheduler, window], in each window where both are defined."""
    first, second = condition[list(pair)]
    differences = first - second
    return differences[~np.isnan(differences)]

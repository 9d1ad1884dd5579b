"""What the two comparisons of metrics share: one source and region seen through pairs of metrics.

Source: the published study's extension. Metrics are paired by name. Values are oriented: negated where smaller is
better, so that larger is better on every metric, and the smaller value of two is always the loser's. Each comparison
has a generator of its own, seeded with the CRC-32 of its names.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from zlib import crc32

import numpy as np

from servestudy.statistics.window_values import HIGHER_IS_BETTER, WindowValues, mean_of_defined

IDENTITIES = {
    ("completion_fraction", "weighted_completion_fraction"),
    ("slo_violation_rate", "weighted_goodput"),
}
"""Pairs of metrics that rank alike by definition as long as all weights are equal, which they are in the study."""


@dataclass(frozen=True)
class Condition:
    """One source and region; schedulers by name, windows in the study's order, values oriented."""

    source: str
    region: str
    schedulers: tuple[str, ...]
    windows: tuple[str, ...]
    values: dict[str, np.ndarray]  # by metric: [scheduler, window]
    means: dict[str, np.ndarray]  # by metric: [scheduler]

    @property
    def metric_pairs(self) -> list[tuple[str, str]]:
        return list(combinations(sorted(self.values), 2))

    def generator(self, *names: str) -> np.random.Generator:
        """Generator of the comparison with these names: two metrics, then what else tells it apart."""
        return np.random.default_rng(crc32("|".join([self.source, self.region, *names]).encode()))


def conditions(values: WindowValues) -> Iterator[Condition]:
    """Sources by name, regions in the study's order."""
    by_name = sorted(range(len(values.schedulers)), key=values.schedulers.__getitem__)
    schedulers = tuple(values.schedulers[place] for place in by_name)
    for source in values.sources:
        for region in values.regions:
            oriented = {
                metric: values.of(source, region, metric)[by_name] * (1 if HIGHER_IS_BETTER[metric] else -1)
                for metric in values.metrics
            }
            means = {
                metric: np.array([mean_of_defined(row) for row in of_metric]) for metric, of_metric in oriented.items()
            }
            yield Condition(source, region, schedulers, values.windows[source], oriented, means)

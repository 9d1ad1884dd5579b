"""The study's one random generator: where it stands when each analysis begins.

Source: the published study's launcher. `default_rng(0)` runs through (1) the ranking comparisons, (2) the reversals,
(3) the temporal splits, (4) the robustness families. Each is an analysis of its own here, so it lets the generator pass
over the draws of those before it; then its intervals are those of the study to the last digit.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.bootstrap import draw, present
from servestudy.statistics.reversal_rules import TESTED, paired_differences, scheduler_pairs, source_pairs
from servestudy.statistics.temporal_splits import Split
from servestudy.statistics.window_values import WindowValues
from servestudy.workload import REGIONS

SEED = 0


def generator() -> np.random.Generator:
    """Where the ranking comparisons begin."""
    return np.random.default_rng(SEED)


def before_reversals(values: WindowValues) -> np.random.Generator:
    rng = generator()
    for metric, region, *sources in comparisons(values, rng):
        _pass_comparison(*(values.of(source, region, metric) for source in sources), rng)
    return rng


def before_temporal(values: WindowValues) -> np.random.Generator:
    """Only pairs whose class the intervals decide have drawn, all of x, then all of y."""
    rng = before_reversals(values)
    pairs = scheduler_pairs(values)
    for condition in source_pairs(values):
        for place in np.flatnonzero(condition.classes("published") == TESTED):
            for source in condition.sources:
                side = values.of(source, condition.region, condition.metric)
                draw(rng, len(paired_differences(side, pairs[place])))
    return rng


def before_robustness(values: WindowValues, splits: list[Split]) -> np.random.Generator:
    """Of the temporal splits only those that the study made draw from its generator."""
    rng = before_temporal(values)
    for split in splits:
        if split.published:
            for region in values.regions:
                condition = values.of(split.source, region, PRIMARY_METRIC)
                for pair in split.pairs():
                    _pass_comparison(*(condition[:, split.groups[group]] for group in pair), rng)
    return rng


def comparisons(values: WindowValues, rng: np.random.Generator) -> Iterator[tuple[str, str, str, str]]:
    """Metric, region, source x and source y of each ranking comparison, in order.

    Lets `rng` pass over the regions of the study that the values lack, as if all windows had values there: the public
    values of the study have two of six regions, and so their intervals are the published ones.
    """
    others = [region for region in values.regions if region not in REGIONS]
    regions = [*REGIONS, *others] if len(others) < len(values.regions) else others
    for metric in values.metrics:
        for region in regions:
            for source_x, source_y in combinations(values.sources, 2):
                if region in values.regions:
                    yield metric, region, source_x, source_y
                else:
                    draw(rng, len(values.windows[source_x]), len(values.windows[source_y]))


def _pass_comparison(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
    """Take what `bootstrap.resampled_agreement` takes for the conditions x and y [scheduler, window]."""
    sizes = [present(side).shape[1] for side in (x, y)]
    if all(sizes):
        draw(rng, *sizes)

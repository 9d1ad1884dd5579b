"""Feature tables for tests of the workload analyses."""

import numpy as np
import pandas as pd

from servestudy.statistics.workload_features import FEATURES, STRATA


def feature_table(counts=(9, 12, 15), seed=0, distance=1.5, missing=0.05):
    """Overlapping sources: the first, fifth and tenth feature tell a little of the source."""
    rng = np.random.default_rng(seed)
    source = np.repeat([f"s{n}" for n in range(len(counts))], counts)
    stratum = np.concatenate([np.array(STRATA)[np.arange(count) % 3] for count in counts])
    values = rng.normal(size=(len(source), len(FEATURES)))
    for place, weight in ((0, 1), (4, -1), (9, 0.5)):
        values[:, place] += distance * weight * np.repeat(np.arange(len(counts)), counts)
    values[rng.random(values.shape) < missing] = np.nan
    table = pd.DataFrame(values, columns=FEATURES)
    return table.assign(source=source, stratum=stratum, window_id=[f"w{n}" for n in range(len(source))])

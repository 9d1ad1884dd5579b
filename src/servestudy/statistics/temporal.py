"""Agreement of the rankings of earlier and later windows of one source, for the primary metric.

Source: the published study; `temporal_splits` has its rules and where they are applied beyond it. The study's own
splits draw from its one generator, in its order; every other split draws from a fresh one.
"""

import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.agreement_intervals import AGREEMENT_COLUMNS, compare_with_intervals
from servestudy.statistics.published_order import before_temporal, generator
from servestudy.statistics.temporal_splits import temporal_splits
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("rule", pa.string(), "tercile, bisection or calendar (by time), position in the list, start_row"),
        column("published", pa.bool_(), "the study split this source, or the one that it stands for, by this rule"),
        column("region", pa.string(), "load region"),
        column("group_x", pa.string(), "first group of windows, by name"),
        column("group_y", pa.string(), "second group"),
        *AGREEMENT_COLUMNS,
    ]
)


def analyse(values: WindowValues, window_index: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rows of SCHEMA: sources in the study's order, rules, regions, pairs of groups.

    Without a window index only the splits by position can be made. Raises UserError if the values lack the primary
    metric or the index lacks a window.
    """
    splits = temporal_splits(values, window_index)
    published_rng = before_temporal(values)
    rows = []
    for split in splits:
        rng = published_rng if split.published else generator()
        for region in values.regions:
            condition = values.of(split.source, region, PRIMARY_METRIC)
            for group_x, group_y in split.pairs():
                sides = (condition[:, split.groups[group]] for group in (group_x, group_y))
                rows.append(
                    {
                        "source": split.source,
                        "rule": split.rule,
                        "published": split.published,
                        "region": region,
                        "group_x": group_x,
                        "group_y": group_y,
                        **compare_with_intervals(*sides, values.schedulers, PRIMARY_METRIC, rng),
                    }
                )
    return pd.DataFrame(rows, columns=SCHEMA.names)

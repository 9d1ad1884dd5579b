"""tau-b of the ANWG rankings of each pair of sources when schedulers that behave alike count once.

Schedulers that give every request the same times, in every window of both sources at the region, are one scheduler with
several names. Each name counts again in the study's tau-b. Here such a group is merged into its first name.
"""

from itertools import combinations

import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.agreement import compare
from servestudy.statistics.outcomes import groups_of_equals, name_groups
from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        column("n_schedulers", pa.int32(), "schedulers with a value in both sources"),
        column("n_distinct", pa.int32(), "of these, how many behave differently somewhere in the two sources"),
        column("tau_b", pa.float64(), "Kendall's tau-b of all; NaN if a side is constant or has fewer than 2"),
        column("tau_b_distinct", pa.float64(), "the same with one scheduler of each group of equals"),
        column("merged", pa.string(), "the groups of two or more, by name: a = b, c = d"),
    ]
)


def analyse(values: WindowValues, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA: regions in the study's order, source pairs by name."""
    of_regions = {
        region: cells.pivot(index=["source", "window_id"], columns="scheduler", values="outcome_sha256").fillna("")
        for region, cells in outcomes.groupby("region")
    }
    rows = []
    for region in values.regions:
        means = {
            source: pd.Series(
                [mean_of_defined(row) for row in values.of(source, region, PRIMARY_METRIC)], values.schedulers
            )
            for source in values.sources
        }
        for source_x, source_y in combinations(values.sources, 2):
            x, y = means[source_x], means[source_y]
            ranked = [name for name in values.schedulers if pd.notna(x[name]) and pd.notna(y[name])]
            cells = of_regions[region]
            in_pair = cells.index.get_level_values("source").isin([source_x, source_y])
            groups = groups_of_equals({name: tuple(cells.loc[in_pair, name]) for name in ranked})
            first = [group[0] for group in groups]
            rows.append(
                {
                    "region": region,
                    "source_x": source_x,
                    "source_y": source_y,
                    "n_schedulers": len(ranked),
                    "n_distinct": len(groups),
                    "tau_b": compare(x[ranked], y[ranked], higher_is_better=True)["tau_b"],
                    "tau_b_distinct": compare(x[first], y[first], higher_is_better=True)["tau_b"],
                    "merged": name_groups(groups),
                }
            )
    return pd.DataFrame(rows, columns=SCHEMA.names)

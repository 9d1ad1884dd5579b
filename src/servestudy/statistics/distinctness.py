"""How many schedulers behave differently in each window and region.

The study counts schedulers by name. Two that give every request the same first token and completion times in a window
are one scheduler there, whatever their names are.
"""

import pandas as pd
import pyarrow as pa

from servestudy.statistics.outcomes import groups_of_equals, name_groups
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("window_id", pa.string(), "id of the window"),
        column("n_schedulers", pa.int32(), "schedulers with a cell"),
        column("n_distinct", pa.int32(), "of these, how many differ in the times of some request"),
        column("n_largest_group", pa.int32(), "schedulers in the largest group of equals"),
        column("equals", pa.string(), "the groups of two or more, by name: a = b, c = d"),
    ]
)


def analyse(values: WindowValues, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA for the schedulers of `values`: sources by name, regions and windows in the study's order."""
    conditions: dict[tuple[str, str, str], dict[str, str]] = {}
    of_interest = outcomes[outcomes["scheduler"].isin(values.schedulers)]
    for cell in of_interest.itertuples():
        conditions.setdefault((cell.source, cell.region, cell.window_id), {})[cell.scheduler] = cell.outcome_sha256
    in_order = [(s, region, w) for s in values.sources for region in values.regions for w in values.windows[s]]
    rows = []
    for key in in_order:
        if key in conditions:
            groups = groups_of_equals(conditions[key])
            counts = len(conditions[key]), len(groups), max(map(len, groups))
            rows.append((*key, *counts, name_groups(groups)))
    return pd.DataFrame(rows, columns=SCHEMA.names)

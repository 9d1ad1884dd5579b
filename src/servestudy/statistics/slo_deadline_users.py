"""Which schedulers decide differently when the deadlines do: outcomes under another SLO multiplier against 20.

The published study's protocol says that kv_constrained_online never looks at the deadline; its code does. Equal
outcomes mean that every request had the same first token and completion step.
"""

import pandas as pd
import pyarrow as pa

from servestudy.statistics.outcomes import KEYS
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("multiplier", pa.int32(), "service times between arrival and deadline in the variant"),
        column("scheduler", pa.string(), "name of the scheduler"),
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("n_windows", pa.int32(), "windows compared"),
        column("n_changed", pa.int32(), "windows where any request was served at other times than at multiplier 20"),
    ]
)


def analyse(outcomes: pd.DataFrame, variants: dict[int, pd.DataFrame]) -> pd.DataFrame:
    """Rows of SCHEMA by multiplier, then in the order of the variant's cells. Arguments as `read_outcomes` gives."""
    frames = []
    for multiplier, variant in variants.items():
        both = variant.merge(outcomes, on=KEYS, suffixes=("", "_reference"), validate="1:1")
        both["n_changed"] = both["outcome_sha256"] != both["outcome_sha256_reference"]
        counted = both.groupby(["scheduler", "source", "region"], sort=False)["n_changed"].agg(["size", "sum"])
        counted.columns = ["n_windows", "n_changed"]
        frames.append(counted.reset_index().assign(multiplier=multiplier))
    return pd.concat(frames, ignore_index=True)[SCHEMA.names]

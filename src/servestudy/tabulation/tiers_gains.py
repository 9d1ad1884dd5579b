"""Table: speed-ups of every system by K, load and memory over the baseline and over one tier, both variants."""

from collections.abc import Mapping

import pandas as pd


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """All comparisons without switched rules, paired streams included."""
    found = []
    for model in ("published", "serving"):
        rows = tables[f"{model}_tier_gains"]
        rows = rows[rows["variant"].isin(["published", "streams=separate"])]
        found.append(rows.assign(variant_of_the_study=model))
    rows = pd.concat(found, ignore_index=True)
    front = ["variant_of_the_study", "preset", "load", "kv_blocks", "system", "tiers", "mix", "requests"]
    rows = rows.rename(columns={"variant": "streams"})
    rows["streams"] = rows["streams"].map({"published": "as the variant has them", "streams=separate": "paired"})
    return rows[[*front, "streams", "reference", "metric", "seeds", "gain", "low", "high"]]

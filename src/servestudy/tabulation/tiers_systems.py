"""Table: every system by load, memory and K: latencies, attainment, fairness, cost; means over seeds."""

from collections.abc import Mapping

import pandas as pd

CELL = ["preset", "load", "kv_blocks", "system", "tiers", "mix", "requests", "tier"]


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Cells without switched rules, all requests and each tier; `tier` -1 is all."""
    found = []
    for model in ("published", "serving"):
        rows = tables[f"{model}_tier_metrics"]
        rows = rows[rows["variant"] == "published"]
        means = rows.drop(columns=["variant", "seed"]).groupby(CELL, sort=True).mean()
        means.insert(0, "seeds", rows.groupby(CELL)["seed"].nunique())
        found.append(means.reset_index().assign(variant_of_the_study=model))
    rows = pd.concat(found, ignore_index=True)
    return rows[["variant_of_the_study", *(name for name in rows if name != "variant_of_the_study")]]

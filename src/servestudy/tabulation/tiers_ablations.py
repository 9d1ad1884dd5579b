"""Table: one switched rule a row, everything else as in the variant: the speed-up that is left, and what tiers do."""

from collections.abc import Mapping

import pandas as pd

METRICS = ("e2e_p99", "e2e_mean", "ttft_mean", "tbt_mean", "slo_attainment")
CELL = ["preset", "load", "kv_blocks", "tiers", "mix", "requests"]


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Speed-ups over INFaaS + vLLM and over one tier, each beside its value without the switch."""
    found = []
    for model in ("published", "serving"):
        rows = tables[f"{model}_tier_gains"]
        rows = rows[(rows["system"] == "ours") & ~rows["variant"].str.startswith("streams")]
        rows = rows[rows["reference"].isin(["baseline", "one_tier"]) & rows["metric"].isin(METRICS)]
        switched = rows[rows["variant"] != "published"]
        cells = switched[[name for name in CELL if name != "kv_blocks"]].drop_duplicates()
        rows = rows.merge(cells, on=[name for name in CELL if name != "kv_blocks"])
        found.append(rows.assign(variant_of_the_study=model))
    rows = pd.concat(found, ignore_index=True)
    keys = ["variant_of_the_study", *(name for name in CELL if name != "kv_blocks"), "reference", "metric"]
    plain = rows[rows["variant"] == "published"].set_index(keys)["gain"]
    plain = plain[~plain.index.duplicated()].rename("without_the_switch")
    rows = rows.join(plain, on=keys).rename(columns={"variant": "switched"})
    rows["switched"] = rows["switched"].replace("published", "none")
    columns = [*keys[:-2], "kv_blocks", "switched", "reference", "metric", "seeds", "gain", "low", "high"]
    return rows[[*columns, "without_the_switch"]].sort_values([*keys[:-2], "reference", "metric", "switched"])

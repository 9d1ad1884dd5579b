"""Table: the primary schedulers in order of their mean ANWG, by source and region."""

from collections.abc import Mapping

import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.schedulers.registry import registered_schedulers


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Equals share the smallest of their ranks and are counted; a scheduler without a value has no rank and goes last.

    Where fewer than two have one, none has a rank. Schedulers that are not registered count as primary.
    """
    registered = registered_schedulers()
    style = [name for name, entry in registered.items() if not entry["primary"]]
    ranking = tables["ranking"]
    rows = ranking[(ranking["metric"] == PRIMARY_METRIC) & ~ranking["scheduler"].isin(style)]
    condition = [rows["source"], rows["region"]]
    conditions = rows.groupby(["source", "region"], sort=False)
    defined = conditions["mean"].transform("count")
    rank = conditions["mean"].rank(method="min", ascending=False).where(defined >= 2)
    equals = rows.groupby([*condition, rows["mean"]], sort=False)["scheduler"].transform("size")
    table = pd.DataFrame(
        {
            "source": rows["source"],
            "region": rows["region"],
            "rank": rank.astype("Int64"),
            "scheduler": rows["scheduler"],
            "mean_anwg": rows["mean"],
            "equals": equals.where(rank.notna()).astype("Int64"),
            "schedulers_defined": defined,
            "windows_defined": rows["windows_defined"],
            "windows_undefined": rows["windows_undefined"],
        }
    ).assign(place=conditions.ngroup())
    return table.sort_values(["place", "rank", "scheduler"], na_position="last").drop(columns="place")

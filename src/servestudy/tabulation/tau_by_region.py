"""Table: mean, smallest and largest tau-b over the source pairs, by load region (the study's table 2)."""

from collections.abc import Mapping

import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.workload import REGIONS


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a statistic. The last ones count source pairs and the values left out of them.

    A pair without a tau has a constant side, or fewer than two schedulers with a value in both sources.
    """
    agreement = tables["agreement"]
    regions = agreement[agreement["metric"] == PRIMARY_METRIC].groupby("region")
    tau = regions["tau_b"]
    rows = pd.DataFrame(
        {
            "mean_tau_b": tau.mean(),
            "min_tau_b": tau.min(),
            "max_tau_b": tau.max(),
            "pairs_defined": tau.count(),
            "pairs_undefined": tau.size() - tau.count(),
            "pairs_below_two_schedulers": regions["n_schedulers"].agg(lambda counts: int((counts < 2).sum())),
            "values_excluded": regions["n_excluded"].sum(),
        },
        dtype=object,
    ).T
    known = [region for region in REGIONS if region in rows.columns]
    return rows[[*known, *rows.columns.difference(known)]].rename_axis("statistic").reset_index()

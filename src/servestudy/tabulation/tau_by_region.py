"""Table: mean, smallest and largest tau-b over the source pairs, by load region (the study's table 2)."""

from pathlib import Path

import pandas as pd

from servestudy.files import atomic_path
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import agreement as agreement_table
from servestudy.tables import read_table
from servestudy.workload import REGIONS


def tabulate(agreement_file: Path | str, title: str, out: Path | str) -> pd.DataFrame:
    """Write the table as CSV. The last rows count source pairs with and without a defined tau."""
    agreement = read_table(agreement_file, agreement_table.SCHEMA).to_pandas()
    tau = agreement[agreement["metric"] == PRIMARY_METRIC].groupby("region")["tau_b"]
    rows = pd.DataFrame(
        {
            "mean_tau_b": tau.mean(),
            "min_tau_b": tau.min(),
            "max_tau_b": tau.max(),
            "pairs_defined": tau.count(),
            "pairs_undefined": tau.size() - tau.count(),
        },
        dtype=object,
    ).T[list(REGIONS)]
    rows.insert(0, "trace_set", title)
    rows.insert(1, "model", "published")
    rows.index.name = "statistic"
    with atomic_path(out) as part:
        rows.to_csv(part, na_rep="undefined", lineterminator="\n")
    return rows

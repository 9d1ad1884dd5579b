"""Table: mean tau-b of each robustness family and variant."""

from collections.abc import Mapping

import pandas as pd


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The analysis as it is, in its order."""
    return tables["robustness"]

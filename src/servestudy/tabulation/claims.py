"""Table: the study's claims with their verdicts."""

from collections.abc import Mapping

import pandas as pd


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a claim, in the order of the claims file."""
    return tables["claims"]

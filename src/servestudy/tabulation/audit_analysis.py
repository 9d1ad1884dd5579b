"""Tables of the audit that show an analysis as it is."""

from collections.abc import Mapping

import pandas as pd


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The one analysis, in its order; the run itself is named."""
    (table,) = tables.values()
    return table.assign(switch=table["switch"].replace("", "none: the run itself"))

"""Table: the best number of tiers of each cell, and how many seeds it takes to find it again."""

from collections.abc import Mapping

import pandas as pd

from servestudy.tabulation.tiers_portability import RANKED, rankings
from servestudy.tiers.portability import CELL, found_again


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a cell of the serving engine, metric and number of seeds."""
    rows = []
    for item, metric, cells in rankings(tables["serving_tier_metrics"]):
        for key, table in cells.items():
            front = {"ranked_are": RANKED[item], "metric": metric} | dict(zip(CELL, key, strict=True))
            front |= {"ranked": table.shape[1], "best": table.mean().idxmin()}
            rows += [front | {"seeds": seeds, "found_again": share} for seeds, share in found_again(table)]
    return pd.DataFrame(rows)

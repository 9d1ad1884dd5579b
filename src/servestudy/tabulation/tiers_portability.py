"""Tables: are the best number of tiers and the ranking of systems the same on other requests and at other loads?"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import pandas as pd

from servestudy.tiers.portability import CELL, METRICS, by_item, compare

K = 4  # at which systems are compared
RANKED = {"tiers": "numbers of tiers, ours", "system": f"systems, K = {K}"}


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a metric and two cells of the serving engine: how alike their rankings are."""
    rows = []
    for item, metric, cells in rankings(tables["serving_tier_metrics"]):
        for (one, first), (two, second) in combinations(cells.items(), 2):
            found = compare(first, second)
            if found["ranked"] > 1:
                rows.append(
                    {"ranked_are": RANKED[item], "metric": metric}
                    | {f"{name}_x": value for name, value in zip(CELL, one, strict=True)}
                    | {f"{name}_y": value for name, value in zip(CELL, two, strict=True)}
                    | {"best_x": first.mean().idxmin(), "best_y": second.mean().idxmin()}
                    | found
                )
    return pd.DataFrame(rows)


def rankings(table: pd.DataFrame) -> Iterator[tuple[str, str, dict[tuple, pd.DataFrame]]]:
    """(what is ranked, metric, tables of `by_item`) of the serving engine's cells without a switched rule."""
    plain = table[(table["tier"] == -1) & (table["variant"] == "published")]
    for item, wanted in (("tiers", plain["system"] == "ours"), ("system", plain["tiers"] == K)):
        for metric in METRICS:
            yield item, metric, by_item(plain[wanted], item, metric)

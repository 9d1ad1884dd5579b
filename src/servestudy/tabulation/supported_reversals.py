"""Table: the supported reversals of the ranking by the primary metric, largest effect first, by both rules."""

from collections.abc import Mapping

import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.reversal_rules import RULES, SUPPORTED, UNDEFINED


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a reversal; differences are mean of a less mean of b, with the ends of their 95 % intervals.

    The last columns count the comparisons of the same rule and region, and those that are undefined.
    """
    reversals = tables["reversals"]
    reversals = reversals[reversals["metric"] == PRIMARY_METRIC]
    undefined = (reversals["reversal_class"] == UNDEFINED).groupby([reversals["rule"], reversals["region"]])
    counted = reversals.assign(
        comparisons_in_region=undefined.transform("size"), undefined_in_region=undefined.transform("sum")
    )
    found = counted[counted["reversal_class"] == SUPPORTED]
    found = found.assign(order=found["rule"].map(RULES.index))
    found = found.sort_values(["order", "effect"], ascending=[True, False], kind="stable")
    return found.drop(columns=["metric", "reversal_class", "order"])

"""Table: the metrics, one row each, with how often they are undefined in the run."""

from collections.abc import Mapping

import pandas as pd

from servestudy.metrics import METRICS, PRIMARY_METRIC


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows in the study's order; values are counted over sources, regions, schedulers and windows.

    A condition is a source and a region; one with fewer than two schedulers that have a value ranks nothing.
    """
    ranking = tables["ranking"]
    counts = ranking.groupby("metric")[["windows_defined", "windows_undefined"]].sum()
    defined = ranking["windows_defined"] > 0
    below_two = defined.groupby([ranking[name] for name in ("metric", "source", "region")]).sum() < 2
    conditions = below_two.groupby("metric").agg(["size", "sum"])
    rows = [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "better": "higher" if metric.higher_is_better else "lower",
            "primary": "yes" if metric.name == PRIMARY_METRIC else "no",
            "definition": metric.definition,
            "undefined_if": metric.undefined_if,
            "values_defined": int(counts["windows_defined"].get(metric.name, 0)),
            "values_undefined": int(counts["windows_undefined"].get(metric.name, 0)),
            "conditions": int(conditions["size"].get(metric.name, 0)),
            "conditions_below_two_schedulers": int(conditions["sum"].get(metric.name, 0)),
        }
        for metric in METRICS
    ]
    return pd.DataFrame(rows)

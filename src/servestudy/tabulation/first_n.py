"""Table: the first number of windows that recovers the ranking in 90 % of draws, by source (the study's table 3)."""

from collections.abc import Mapping

import pandas as pd

NEVER = "never"
KEYS = ["source", "metric", "rule", "n_schedulers", "n_windows_available", "n_excluded"]


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One row a source, metric and rule; a column each for the whole order, the best and the best three.

    `never`: also all windows together do not; `undefined`: fewer than two schedulers have a value.
    """
    curves = tables["sample_complexity"]
    rows = []
    for key, group in curves.groupby(KEYS, sort=False):
        first = {criterion: first_number(curve) for criterion, curve in group.groupby("criterion", sort=False)}
        rows.append(dict(zip(KEYS, key, strict=True)) | first)
    return pd.DataFrame(rows, columns=[*KEYS, *curves["criterion"].unique()])


def first_number(curve: pd.DataFrame) -> int | str:
    """The first number of windows of one curve, `never` or `undefined`."""
    if curve["probability"].isna().all():
        return "undefined"
    first = curve.loc[curve["is_first_n"], "n_windows"]
    return int(first.iloc[0]) if len(first) else NEVER

"""What one engine model says against what the other says: the parts that figures and tables of both share.

Like for like: the same schedulers, the study's primary ones, and the study's own procedures under both models.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.model_names import MODELS
from servestudy.schedulers.registry import registered_schedulers
from servestudy.statistics.agreement import compare
from servestudy.statistics.reversal_rules import SUPPORTED

REVERSAL_KEYS = ["region", "source_x", "source_y", "scheduler_a", "scheduler_b"]


def of_both(tables: Mapping[str, pd.DataFrame], analysis: str) -> dict[str, pd.DataFrame]:
    """The table of an analysis by engine model; `tables` has it under <model>/<analysis>."""
    return {model: tables[f"{model}/{analysis}"] for model in MODELS}


@dataclass(frozen=True)
class Reversals:
    """Supported reversals by the published rule and the primary metric, as a set of REVERSAL_KEYS for each model."""

    published: frozenset[tuple]
    serving: frozenset[tuple]

    @property
    def both(self) -> frozenset[tuple]:
        return self.published & self.serving


def supported_reversals(reversals: Mapping[str, pd.DataFrame]) -> Reversals:
    """Of the tables of the analysis `reversals` by model."""
    return Reversals(**{model: _supported(table) for model, table in reversals.items()})


def _supported(table: pd.DataFrame) -> frozenset[tuple]:
    rows = published_rule(table)
    rows = rows[rows["reversal_class"] == SUPPORTED]
    return frozenset(rows[REVERSAL_KEYS].itertuples(index=False, name=None))


def published_rule(table: pd.DataFrame) -> pd.DataFrame:
    """Rows about the primary metric by the published rule."""
    return table[(table["rule"] == "published") & (table["metric"] == PRIMARY_METRIC)]


def primary_means(ranking: pd.DataFrame) -> pd.DataFrame:
    """Mean ANWG of the primary schedulers, of a table of the analysis `ranking`: source, region, scheduler, mean.

    Schedulers that are not registered count as primary.
    """
    others = [name for name, entry in registered_schedulers().items() if not entry["primary"]]
    rows = ranking[(ranking["metric"] == PRIMARY_METRIC) & ~ranking["scheduler"].isin(others)]
    return rows[["source", "region", "scheduler", "mean"]]


def tau_between_models(ranking: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Kendall's tau-b between the ANWG rankings of the two models in each source and region.

    Columns source, region, n_schedulers, tau_b (NaN if a side is constant or fewer than 2 have a value in both).
    """
    sides = [primary_means(ranking[model]).set_index(["source", "region", "scheduler"])["mean"] for model in MODELS]
    means = pd.concat(dict(zip(MODELS, sides, strict=True)), axis="columns", sort=False)
    rows = []
    for (source, region), of_condition in means.groupby(["source", "region"], sort=False):
        of_condition = of_condition.droplevel(["source", "region"])
        found = compare(*(of_condition[model] for model in MODELS), higher_is_better=True)
        rows.append((source, region, found["n_schedulers"], found["tau_b"]))
    return pd.DataFrame(rows, columns=["source", "region", "n_schedulers", "tau_b"])

"""Table: mean ANWG and rank of every scheduler under both engine models, by source and region."""

from collections.abc import Mapping

import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.models_compared import of_both
from servestudy.schedulers.registry import registered_schedulers
from servestudy.statistics.outcomes import groups_of_equals

KEYS = ["source", "region", "scheduler"]
NOT_RUN = "not in this model"


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Primary schedulers are ranked among themselves, equals share the smallest rank; the others have a value alone.

    Fewer than two with a value: none has a rank. `..._same_as` names the primary schedulers that serve every request of
    the condition alike, so that as many rows are one scheduler with several names.
    """
    ranking = of_both(tables, "ranking")
    sides = {
        model: _side(table, distinctness)
        for (model, table), distinctness in zip(ranking.items(), of_both(tables, "distinctness").values(), strict=True)
    }
    table = pd.concat(
        [side.add_prefix(f"{model}_") for model, side in sides.items()], axis="columns", sort=False
    ).astype(object)
    for model, side in sides.items():
        absent = ~table.index.isin(side.index)
        table.loc[absent, [name for name in table if name.startswith(f"{model}_")]] = NOT_RUN
    table = table.reset_index()
    table.insert(3, "role", table["scheduler"].map(_role))
    place = table.groupby(["source", "region"], sort=False).ngroup()
    order = pd.DataFrame(
        {"place": place, "serving": pd.to_numeric(table["serving_rank"], errors="coerce"), "name": table["scheduler"]}
    )
    return table.loc[order.sort_values(["place", "serving", "name"], na_position="last").index]


def _role(scheduler: str) -> str:
    entry = registered_schedulers().get(scheduler)
    if entry is None:
        return "not registered"
    if entry["primary"]:
        return "primary"
    return "added, not of the study" if entry["fidelity"] is None else "style approximation"


def _side(ranking: pd.DataFrame, distinctness: pd.DataFrame) -> pd.DataFrame:
    """anwg, rank, same_as by KEYS."""
    rows = ranking[ranking["metric"] == PRIMARY_METRIC].set_index(KEYS)["mean"].to_frame("anwg")
    primary = [_role(name) in ("primary", "not registered") for name in rows.index.get_level_values("scheduler")]
    conditions = rows["anwg"].where(primary).groupby(["source", "region"], sort=False)
    rank = conditions.rank(method="min", ascending=False).where(conditions.transform("count") >= 2)
    rows["rank"] = rank.astype("Int64").astype(object).where(rank.notna(), None).where(primary, "not ranked")
    groups = {key: _groups(table["equals"]) for key, table in distinctness.groupby(["source", "region"], sort=False)}
    rows["same_as"] = [
        _others(name, groups.get((source, region))) if is_primary else "not compared"
        for (source, region, name), is_primary in zip(rows.index, primary, strict=True)
    ]
    return rows


def _groups(equals: pd.Series) -> list[list[str]]:
    """Groups of schedulers that are equals in every window; each text is as `name_groups` writes it."""
    windows = [
        {name: group for group in text.split(", ") for name in group.split(" = ")} if text else {} for text in equals
    ]
    names = set.intersection(*map(set, windows)) if windows else set()
    return groups_of_equals({name: tuple(groups[name] for groups in windows) for name in names})


def _others(name: str, groups: list[list[str]] | None) -> str:
    if groups is None:
        return "unknown"
    return ", ".join(other for group in groups if name in group for other in group if other != name) or "none"

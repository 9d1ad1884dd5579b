"""Claims about how many and which windows a ranking rests on, and about robustness."""

import pandas as pd

from servestudy.claim_tests.evidence import (
    FIFO_CELLS,
    Evidence,
    Finding,
    UndefinedError,
    count_undefined,
    extremes,
    stand_in,
)

ROLES = ("azure", "bailian", "burstgpt")
NEVER = "never"


def first_n(evidence: Evidence, criterion: str, above: int = 0, largest: str | None = None) -> Finding:
    """First number of windows that reaches 0.9 (published rule), by source.

    Holds if each is above `above`, and that of `largest` is above the others.
    """
    table = evidence.primary("sample_complexity")
    sources = {role: stand_in(role, table["source"]) for role in ROLES}
    table = table[(table["rule"] == "published") & (table["criterion"] == criterion)]
    values = {}
    for role, source in sources.items():
        first = table[(table["source"] == source) & table["is_first_n"]]["n_windows"]
        values[role] = int(first.iloc[0]) if len(first) else NEVER
    reached = {role: float("inf") if value == NEVER else value for role, value in values.items()}
    holds = all(value > above for value in reached.values())
    if largest:
        holds &= all(reached[largest] > value for role, value in reached.items() if role != largest)
    return Finding(values, holds)


def spread_budget(evidence: Evidence) -> Finding:
    """Mean tau-b of a budget spread over the sources and of one concentrated; holds if spread is better."""
    table = evidence.primary("window_budgets")
    published = table[table["rule"] == "published"].iloc[0]
    values = {"spread": float(published["tau_spread"]), "concentrated": float(published["tau_concentrated"])}
    if pd.isna(list(values.values())).any():
        raise UndefinedError("no draw has a tau")
    equal = table[table["rule"] == "equal_budgets"]
    better = int((equal["tau_spread"] > equal["tau_concentrated"]).sum())
    note = f"spread is better at {better} of {len(equal)} equal budgets"
    return Finding(values, values["spread"] > values["concentrated"], note)


def temporal(evidence: Evidence, role: str, rule: str, at_least: float) -> Finding:
    """Extremes of tau-b over all pairs of groups and regions of one split; holds if all reach `at_least`."""
    table = evidence.table("temporal")
    table = table[(table["source"] == stand_in(role, table["source"])) & (table["rule"] == rule)]
    if table.empty:
        raise UndefinedError(f"the {rule} split leaves a group without windows")
    values = extremes(table["tau_b"])
    pairs = (table["group_x"] + "-" + table["group_y"]).str.replace("_", " ").str.lower()
    of_pairs = table.groupby(pairs, sort=False)["tau_b"].agg(["min", "max"])
    note = ", ".join(f"{pair} {low:.2f} to {high:.2f}" for pair, low, high in of_pairs.itertuples())
    undefined = count_undefined(table["tau_b"], "taus")
    return Finding(values, values["min"] >= at_least, "; ".join(filter(None, [undefined, note])))


def tercile_sizes(evidence: Evidence, role: str) -> Finding:
    """Windows in each third of a source; holds if they differ by one at most."""
    table = evidence.table("temporal")
    table = table[(table["source"] == stand_in(role, table["source"])) & (table["rule"] == "tercile")]
    if table.empty:
        raise UndefinedError("too few windows for thirds")
    sizes = dict(zip(table["group_x"], table["windows_x"], strict=True))
    sizes |= dict(zip(table["group_y"], table["windows_y"], strict=True))
    values = {name: int(sizes[name]) for name in ("EARLY", "MIDDLE", "LATE")}
    return Finding(values, max(values.values()) - min(values.values()) <= 1)


def leave_one_source_out(evidence: Evidence, highest: str) -> Finding:
    """Mean tau-b without each source; holds if it is highest without `highest`."""
    table = evidence.table("robustness")
    table = table[table["family"] == "LEAVE_ONE_SOURCE_OUT"]
    mean = table.set_index("variant")["mean_tau_b"]
    values = {role: float(mean[stand_in(role, mean.index)]) for role in ROLES}
    if pd.isna(list(values.values())).any():
        raise UndefinedError("no tau is defined without one of the sources")
    return Finding(values, all(values[highest] > value for role, value in values.items() if role != highest))


def leave_one_family_out(evidence: Evidence, within: float) -> Finding:
    """Extremes of the mean tau-b without each mechanism family; holds if all are that close to the mean of all."""
    table = evidence.table("robustness")
    baseline = float(table.loc[table["family"] == "PRIMARY_ONLY", "mean_tau_b"].iloc[0])
    mean = table.loc[table["family"] == "LEAVE_ONE_POLICY_FAMILY_OUT", "mean_tau_b"]
    values = {**extremes(mean), "baseline": baseline}
    return Finding(values, (mean.dropna() - baseline).abs().max() < within)


def prompt_cv_coefficient(evidence: Evidence, share: float) -> Finding:
    """Fits that the study reads in which prompt_tokens_cv has a negative coefficient; holds if at least `share`."""
    table = evidence.table("explanation")
    counts = {}
    for rule, rows in table.groupby("rule", sort=False):
        read = rows[rows["read_by_study"]]
        counts[rule] = int((read["prompt_tokens_cv"] < 0).sum()), len(read)
    negative, of = counts["published"]
    n_cells = int((table["rule"] == "published").sum())
    if not of:
        raise UndefinedError(f"none of {n_cells} fits converged with enough observations")
    note = "with the source as covariate: {} of {}".format(*counts.get("with_source", (0, 0)))
    return Finding({"negative": negative, "of": of, "cells": n_cells}, negative / of >= share, note)


def pilot(evidence: Evidence, role: str) -> Finding:
    """The pilot's verdict and the share of one source; holds if that share is too small and the pilot fails."""
    table = evidence.table("pilot_criteria")
    table = table[table["scope"] == "first_ten_windows"].set_index("criterion")
    go = table.loc["go"]
    if go["verdict"] == "not evaluable":
        raise UndefinedError("the pilot's regions and schedulers have no values")
    shares = table.loc[["source_share"]].set_index("source")
    share = shares.loc[stand_in(role, shares.index)]
    non_tied = table.loc["non_tied_triples"]
    values = {
        "go": go["verdict"],
        "share": float(share["value"]),
        "non_tied": int(non_tied["count"]),
        "of": int(non_tied["of"]),
    }
    return Finding(values, share["value"] < share["at_least"] and go["verdict"] == "fail")


def fifo_violations(evidence: Evidence, none_at: list[str]) -> Finding:
    """FIFO's mean violation rate by region; holds if it is 0 at `none_at` and never falls from there on."""
    cells = evidence.table(FIFO_CELLS)
    cells = cells[cells["repetition"] == 0]
    mean = cells.groupby("region", sort=False)["slo_violation_rate"].mean()
    if mean.isna().any():
        raise UndefinedError("no request completed at a region")
    values = {region: float(value) for region, value in mean.items()}
    return Finding(values, mean.is_monotonic_increasing and all(values.get(region) == 0 for region in none_at))


def fifo_zero_completions(evidence: Evidence) -> Finding:
    """FIFO records without a completed request, by source; the note counts those without a violation."""
    cells = evidence.table(FIFO_CELLS)
    cells = cells[cells["repetition"] == 0]
    none_completed = cells["completion_fraction"] == 0
    none_late = cells["slo_violation_rate"] == 0
    values, late = {"total": int(none_completed.sum())}, []
    for role in ROLES:
        of_source = cells["source"] == stand_in(role, cells["source"])
        values[role] = int(none_completed[of_source].sum())
        late.append(f"{role} {int(none_late[of_source].sum())}")
    note = f"records without a late request: {int(none_late.sum())} of {len(cells)} ({', '.join(late)})"
    return Finding(values, values["total"] > 0, note)


TESTS = (
    first_n,
    spread_budget,
    temporal,
    tercile_sizes,
    leave_one_source_out,
    leave_one_family_out,
    prompt_cv_coefficient,
    pilot,
    fifo_violations,
    fifo_zero_completions,
)

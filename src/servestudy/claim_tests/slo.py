"""Claims about other deadlines: 10 and 40 times the service time in place of 20."""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, UndefinedError, count_undefined, extremes
from servestudy.statistics.slo_persistence import DIRECTION_CHANGE, DISAPPEARS, PERSISTS, UNSUPPORTED
from servestudy.workload import SLACK_MULTIPLIER

OUTCOMES = {
    "persists": PERSISTS,
    "direction_change": DIRECTION_CHANGE,
    "becomes_unsupported": UNSUPPORTED,
    "disappears": DISAPPEARS,
}


def _rankings(evidence: Evidence) -> pd.DataFrame:
    """Comparisons with the ranking at the usual deadlines; the two rules differ in the intervals alone."""
    table = evidence.table("slo_agreement")
    return table[table["rule"] == "independent"]


def _reversals(evidence: Evidence) -> pd.DataFrame:
    """What became of the supported reversals, by the published rule, at other deadlines than the usual."""
    table = evidence.table("slo_persistence")
    table = table[(table["rule"] == "published") & (table["multiplier"] != SLACK_MULTIPLIER)]
    if table.empty:
        raise UndefinedError("there is no supported reversal to follow")
    return table


def slo_median_tau(evidence: Evidence, at_least: float) -> Finding:
    """Median and range of tau-b with the ranking at the usual deadlines."""
    tau = _rankings(evidence)["tau_b"]
    values = {"median": float(tau.median()), **extremes(tau), "n_conditions": len(tau)}
    return Finding(values, values["median"] >= at_least, count_undefined(tau, "taus"))


def slo_top1_changes(evidence: Evidence, below: float) -> Finding:
    """Conditions in which the first scheduler (ties by name) changes; holds if some, a smaller share than `below`."""
    table = _rankings(evidence)
    overlap = table["top1_overlap"]
    extremes(overlap)
    count = int((overlap == 0).sum())
    note = f"{int(table['best_changes'].sum())} if equally best schedulers count as agreement"
    undefined = count_undefined(overlap, "conditions")
    holds = 0 < count / len(table) < below
    return Finding({"count": count, "of": len(table)}, holds, "; ".join(filter(None, [undefined, note])))


def slo_persistence(evidence: Evidence) -> Finding:
    """Supported reversals by what became of them; holds if more than half persist."""
    table = _reversals(evidence)
    counts = {name: int((table["outcome"] == outcome).sum()) for name, outcome in OUTCOMES.items()}
    return Finding({**counts, "of": len(table)}, counts["persists"] > len(table) / 2)


def slo_direction_changes(evidence: Evidence) -> Finding:
    """Supported reversals whose direction changes; holds if none does."""
    table = _reversals(evidence)
    changed = table[table["outcome"] == DIRECTION_CHANGE]
    pairs = (changed["scheduler_a"] + "|" + changed["scheduler_b"]).value_counts().sort_index()
    note = ", ".join(f"{pair} {count}" for pair, count in pairs.items())
    return Finding({"direction_change": len(changed)}, changed.empty, note)


def slo_fdr(evidence: Evidence) -> Finding:
    """Whether p-values are corrected; holds if that changes what becomes of no reversal."""
    table = _reversals(evidence)
    persist = [int((table[outcome] == PERSISTS).sum()) for outcome in ("outcome", "outcome_after_fdr")]
    note = f"{persist[0]} of {len(table)} persist without the correction, {persist[1]} with it"
    corrected = int(table["p_adjusted"].notna().any())
    return Finding({"corrected": corrected}, persist[0] == persist[1], note)


TESTS = (slo_median_tau, slo_top1_changes, slo_persistence, slo_direction_changes, slo_fdr)

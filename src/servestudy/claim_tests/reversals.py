"""Claims about reversals of the order of two schedulers, by the published rule."""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, UndefinedError, stand_in
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.reversal_rules import MICROSCOPIC, STABLE, SUPPORTED, UNDEFINED, WIDE

NAMES = {
    "undefined": UNDEFINED,
    "stable": STABLE,
    "microscopic": MICROSCOPIC,
    "wide_ci": WIDE,
    "supported": SUPPORTED,
}


def _published(evidence: Evidence) -> pd.DataFrame:
    table = evidence.table("reversals")
    table = table[table["rule"] == "published"]
    if table.empty:
        raise UndefinedError("fewer than two sources or schedulers: there is no pair to compare")
    return table


def _primary(evidence: Evidence) -> pd.DataFrame:
    table = _published(evidence)
    return table[table["metric"] == PRIMARY_METRIC]


def _supported(evidence: Evidence) -> pd.DataFrame:
    table = _primary(evidence)
    found = table[table["reversal_class"] == SUPPORTED]
    if found.empty:
        raise UndefinedError("there is no supported reversal")
    return found


def _counts(table: pd.DataFrame) -> dict[str, int]:
    return {name: int((table["reversal_class"] == label).sum()) for name, label in NAMES.items()}


def reversal_class_counts(evidence: Evidence, supported_below: float) -> Finding:
    """Records by class; holds if some are supported, and a smaller share than that."""
    table = _primary(evidence)
    counts = _counts(table)
    share = counts["supported"] / len(table)
    return Finding({**counts, "n": len(table), "share": share}, 0 < share < supported_below)


def reversals_of_one_pair(evidence: Evidence, pair: str) -> Finding:
    """Supported reversals of one pair of schedulers, `a|b` by name, and of other pairs; holds if of a single pair."""
    found = _supported(evidence)
    of_pairs = (found["scheduler_a"] + "|" + found["scheduler_b"]).value_counts()
    this = int(of_pairs.get(pair, 0))
    listed = ", ".join(f"{name} {count}" for name, count in of_pairs.sort_index().items())
    note = f"{len(of_pairs)} pairs: {listed}"
    return Finding({"of_the_pair": this, "of_other_pairs": len(found) - this}, len(of_pairs) == 1, note)


def reversals_with_source(evidence: Evidence, role: str) -> Finding:
    """Supported reversals that have one source on a side; holds if all have."""
    table = _primary(evidence)
    source = stand_in(role, {*table["source_x"], *table["source_y"]})
    found = _supported(evidence)
    count = int(((found["source_x"] == source) | (found["source_y"] == source)).sum())
    return Finding({"with_it": count, "of": len(found)}, count == len(found))


def reversals_by_region(evidence: Evidence, without: str, high: list[str]) -> Finding:
    """Supported reversals by region; holds if none is at `without` and on average more are at `high` than elsewhere."""
    table = _primary(evidence)
    _supported(evidence)
    counts = (table["reversal_class"] == SUPPORTED).groupby(table["region"], sort=False).sum()
    is_high = counts.index.isin(high)
    more = counts[is_high].mean() > counts[~is_high].mean()
    values = {region: int(count) for region, count in counts.items()}
    return Finding(values, values.get(without, 0) == 0 and more)


def reversals_survive_fdr(evidence: Evidence) -> Finding:
    """Supported reversals that Benjamini-Hochberg leaves standing; holds if all are."""
    found = _supported(evidence)
    count = int(found["supported_after_fdr"].sum())
    return Finding({"survive": count, "of": len(found)}, count == len(found))


def reversals_no_wide_interval(evidence: Evidence) -> Finding:
    """Records past the margin whose interval holds zero."""
    count = _counts(_primary(evidence))["wide_ci"]
    return Finding({"wide_ci": count}, count == 0)


def largest_reversal(evidence: Evidence, pair: str, region: str) -> Finding:
    """Largest effect size and how many reversals have it; holds if all of them are of the pair `a|b` at the region."""
    found = _supported(evidence)
    top = found[found["effect"] == found["effect"].max()]
    is_pair = (top["scheduler_a"] + "|" + top["scheduler_b"] == pair) & (top["region"] == region)
    first = top.iloc[0]
    note = (
        f"{first['scheduler_a']}|{first['scheduler_b']} at {first['region']}: {first['source_x']}, {first['source_y']};"
        f" the smaller absolute difference is {first['smaller_difference']:.4g}"
    )
    return Finding({"effect": float(top["effect"].max()), "records": len(top)}, is_pair.all(), note)


def reversals_of_metrics(evidence: Evidence) -> Finding:
    """Counts of NAMES, in that order, for each other metric; holds if none has more supported ones than the primary."""
    by_metric = {metric: _counts(rows) for metric, rows in _published(evidence).groupby("metric", sort=False)}
    primary = by_metric.pop(PRIMARY_METRIC)
    values = {metric: " ".join(map(str, counts.values())) for metric, counts in by_metric.items()}
    return Finding(values, all(counts["supported"] <= primary["supported"] for counts in by_metric.values()))


TESTS = (
    reversal_class_counts,
    reversals_of_one_pair,
    reversals_with_source,
    reversals_by_region,
    reversals_survive_fdr,
    reversals_no_wide_interval,
    largest_reversal,
    reversals_of_metrics,
)

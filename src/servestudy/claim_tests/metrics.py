"""Claims about the agreement between metrics."""

from servestudy.claim_tests.evidence import Evidence, Finding, UndefinedError, count_undefined, extremes
from servestudy.statistics.cross_metric_disagreements import SUPPORTED


def cross_metric_median_tau(evidence: Evidence, above: float, below: float) -> Finding:
    """Median and range of tau-b between two metrics; holds if the median is between the two."""
    table = evidence.table("cross_metric_agreement")
    tau = table["tau_b"]
    values = {"median": float(tau.median()), **extremes(tau), "n_conditions": len(tau)}
    without = tau[~table["identity"]].median()
    note = f"without the two pairs that are alike by definition: {without:.3f}"
    undefined = count_undefined(tau, "taus")
    return Finding(values, above < values["median"] < below, "; ".join(filter(None, [undefined, note])))


def cross_metric_negative(evidence: Evidence) -> Finding:
    """Conditions with a negative tau-b; holds if there is any."""
    tau = evidence.table("cross_metric_agreement")["tau_b"]
    extremes(tau)
    count = int((tau < 0).sum())
    return Finding({"count": count, "of": len(tau)}, count > 0, count_undefined(tau, "taus"))


def top1_changes_with_metric(evidence: Evidence, above: float) -> Finding:
    """Share of conditions in which two metrics have another best scheduler (ties by name, as published)."""
    table = evidence.table("cross_metric_agreement")
    undefined = count_undefined(table["top1_agrees"], "conditions")
    table = table.dropna(subset=["top1_agrees"])
    if table.empty:
        raise UndefinedError("no condition has three schedulers with values")
    agree = int(table["top1_agrees"].sum())
    share = 1 - agree / len(table)
    tie_aware = 1 - table["top1_agrees_tie_aware"].mean()
    note = f"{tie_aware:.3f} if equally best schedulers count as agreement"
    values = {"share": share, "agree": agree, "of": len(table)}
    return Finding(values, share > above, "; ".join(filter(None, [undefined, note])))


def cross_metric_disagreements(evidence: Evidence, below: float) -> Finding:
    """Supported practical disagreements; holds if some are, a smaller share than that."""
    table = evidence.table("cross_metric_disagreements")
    if table.empty:
        raise UndefinedError("there is no pair of schedulers to compare")
    supported = table["disagreement"] == SUPPORTED
    values = {
        "supported": int(supported.sum()),
        "of": len(table),
        "survive_bh": int((supported & table["fdr_rejected"]).sum()),
    }
    return Finding(values, 0 < supported.mean() < below)


TESTS = (cross_metric_median_tau, cross_metric_negative, top1_changes_with_metric, cross_metric_disagreements)

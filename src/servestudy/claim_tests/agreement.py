"""Claims about the agreement of the rankings by the primary metric."""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, UndefinedError, count_undefined, extremes, stand_in

FOUR_REGIONS = ("LOW", "PRE_KNEE", "KNEE", "OVERLOAD")


def _has(pairs: pd.DataFrame, source: str) -> pd.Series:
    return (pairs["source_x"] == source) | (pairs["source_y"] == source)


def _sources(pairs: pd.DataFrame) -> set[str]:
    return {*pairs["source_x"], *pairs["source_y"]}


def tau_range(evidence: Evidence) -> Finding:
    """Smallest and largest tau-b; holds if all defined ones are positive."""
    tau = evidence.primary("agreement")["tau_b"]
    positive = int((tau > 0).sum())
    values = {**extremes(tau), "n_conditions": len(tau), "n_positive": positive}
    return Finding(values, positive == tau.count(), count_undefined(tau, "taus"))


def tau_of_pair(evidence: Evidence, roles: list[str], at_least: float) -> Finding:
    """Extremes of tau-b of one source pair over the regions; holds if all reach `at_least`."""
    pairs = evidence.primary("agreement")
    x, y = (stand_in(role, _sources(pairs)) for role in roles)
    tau = pairs.loc[_has(pairs, x) & _has(pairs, y), "tau_b"]
    values = extremes(tau)
    return Finding(values, values["min"] >= at_least, count_undefined(tau, "taus"))


def _with_and_without(evidence: Evidence, role: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    pairs = evidence.primary("agreement")
    involved = _has(pairs, stand_in(role, _sources(pairs)))
    return pairs[involved], pairs[~involved]


def _gaps(evidence: Evidence, role: str) -> pd.Series:
    """tau-b of pairs without the source less that of pairs with it, by region; NaN where one is undefined."""
    with_it, without = _with_and_without(evidence, role)
    if without.empty:
        raise UndefinedError(f"no source pair is without {role}")
    both = with_it.merge(without, on="region", suffixes=("_with", "_without"))
    return both["tau_b_without"] - both["tau_b_with"]


def tau_with_source(evidence: Evidence, role: str) -> Finding:
    """Extremes of tau-b of the pairs with one source; holds if each is below the other pairs' in its region."""
    tau = _with_and_without(evidence, role)[0]["tau_b"]
    gaps = _gaps(evidence, role)
    return Finding(extremes(tau), (gaps.dropna() > 0).all(), count_undefined(tau, "taus"))


def tau_gap(evidence: Evidence, role: str) -> Finding:
    """Extremes of the difference between pairs without and with a source, within a region; holds if all are positive"""
    gaps = _gaps(evidence, role)
    values = extremes(gaps)
    return Finding(values, values["min"] > 0, count_undefined(gaps, "differences"))


def mean_tau(evidence: Evidence, at_least: float) -> Finding:
    """Mean of tau-b over all conditions."""
    tau = evidence.primary("agreement")["tau_b"]
    extremes(tau)
    return Finding({"mean": float(tau.mean())}, tau.mean() >= at_least, count_undefined(tau, "taus"))


def tau_by_region(evidence: Evidence, spread_below: float) -> Finding:
    """Mean tau-b of each region; holds if the means spread less than that and neither only rise nor only fall."""
    tau = evidence.primary("agreement").groupby("region", sort=False)["tau_b"].mean()
    if tau.isna().any():
        raise UndefinedError(f"no tau is defined at {', '.join(tau.index[tau.isna()])}")
    spread = tau.max() - tau.min()
    trend = spread > 0 and (tau.is_monotonic_increasing or tau.is_monotonic_decreasing)
    return Finding({region: float(value) for region, value in tau.items()}, spread < spread_below and not trend)


def four_region_tau(evidence: Evidence, within: float) -> Finding:
    """Mean tau-b over four regions and over all."""
    pairs = evidence.primary("agreement")
    four, six = pairs.loc[pairs["region"].isin(FOUR_REGIONS), "tau_b"].mean(), pairs["tau_b"].mean()
    if pd.isna(four):
        raise UndefinedError("no tau is defined in the four regions")
    return Finding({"four": float(four), "six": float(six)}, abs(four - six) < within)


def control_case(evidence: Evidence) -> Finding:
    """Width of the interval of the condition with the highest tau-b (then the narrowest), and the smallest width."""
    pairs = evidence.primary("agreement_intervals")
    pairs = pairs.assign(width=pairs["tau_high"] - pairs["tau_low"]).dropna(subset=["tau_b", "width"])
    if pairs.empty:
        raise UndefinedError("no tau has an interval")
    chosen = pairs.sort_values(["tau_b", "width"], ascending=[False, True], kind="stable").iloc[0]
    narrowest = pairs.sort_values("width", kind="stable").iloc[0]
    values = {"width_of_highest_tau": float(chosen["width"]), "smallest_width": float(narrowest["width"])}
    note = f"highest tau: {_condition(chosen)}; narrowest interval: {_condition(narrowest)}"
    return Finding(values, chosen["width"] <= narrowest["width"], note)


def _condition(row: pd.Series) -> str:
    return f"{row['source_x']}, {row['source_y']} at {row['region']}"


def best_everywhere(evidence: Evidence) -> Finding:
    """Primary schedulers that are best, or equal to the best, by the primary metric in every source and region."""
    from servestudy.schedulers.registry import registered_schedulers

    style = [name for name, entry in registered_schedulers().items() if not entry["primary"]]
    ranking = evidence.primary("ranking")
    ranking = ranking[~ranking["scheduler"].isin(style)].dropna(subset=["mean"])
    conditions = ranking.groupby(["source", "region"], sort=False)
    is_best = ranking["mean"] == conditions["mean"].transform("max")
    times_best = ranking[is_best]["scheduler"].value_counts()
    everywhere = sorted(times_best.index[times_best == conditions.ngroups])
    if not conditions.ngroups:
        raise UndefinedError("no scheduler has a value")
    often = ", ".join(f"{name} {count}" for name, count in sorted(times_best.items(), key=lambda item: -item[1])[:3])
    note = f"best or equal in most of {conditions.ngroups} conditions: {often}"
    return Finding({"best_everywhere": len(everywhere)}, not everywhere, note)


def friedman(evidence: Evidence) -> Finding:
    """Entries (metric and region) of Friedman's test; holds if any has a statistic."""
    table = evidence.table("friedman")
    defined, rejected = int(table["chi_square"].count()), int(table["rejected"].sum())
    return Finding({"entries": len(table)}, defined > 0, f"{defined} have a statistic, {rejected} reject equality")


TESTS = (
    tau_range,
    tau_of_pair,
    tau_with_source,
    tau_gap,
    mean_tau,
    tau_by_region,
    four_region_tau,
    control_case,
    best_everywhere,
    friedman,
)

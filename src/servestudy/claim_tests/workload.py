"""Claims about the windows themselves."""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, UndefinedError

KEYS = {"source", "window_id", "window_number", "stratum", "requests"}


def separability(evidence: Evidence, scores: dict[str, list[str]], at_least: float) -> Finding:
    """`scores`: name -> [classifier, score], of the pooled held-out strata; holds if all reach `at_least`."""
    table = evidence.table("separability")
    table = table[(table["inputs"] == "values") & (table["fold"] == "all")].set_index("model")
    values = {name: float(table.at[model, score]) for name, (model, score) in scores.items()}
    return Finding(_defined(values), min(values.values()) >= at_least, _sources(table))


def single_features(evidence: Evidence, features: list[str], group: str, at_least: float) -> Finding:
    """Balanced accuracy by one feature; holds if each reaches `at_least` and one of the best is of the group"""
    from servestudy.statistics.workload_features import FEATURE_GROUPS

    table = evidence.table("separability_drivers")
    alone = table[table["change"] == "alone"].set_index("item")["balanced_accuracy"]
    values = _defined({name: float(alone[name]) for name in features})
    best = list(alone.index[alone == alone.max()])
    of_group = any(name in FEATURE_GROUPS[group] for name in best)
    note = f"the best with {alone.max():.3f}: {', '.join(best)}"
    return Finding(values, min(values.values()) >= at_least and of_group, note)


def cross_against_within(evidence: Evidence) -> Finding:
    """The effect as the study codes it; holds if windows of two sources are farther apart."""
    row = evidence.table("cross_against_within").iloc[0]
    values = _defined({"rank_biserial": float(row["effect_published"])})
    note = f"{row['effect_cross_farther']:+.3f} with the sign for which positive is farther apart"
    return Finding(values, row["effect_cross_farther"] > 0, note)


def effect_sign(evidence: Evidence) -> Finding:
    """Sign of the published effect where windows of two sources are farther apart in the median; holds if positive."""
    row = evidence.table("cross_against_within").iloc[0]
    if not row["cross_median"] > row["within_median"]:
        raise UndefinedError("windows of two sources are not farther apart here")
    sign = int(row["effect_published"] > 0) - int(row["effect_published"] < 0)
    return Finding({"sign": sign}, sign > 0)


def feature_count(evidence: Evidence) -> Finding:
    """Features of each window; the note counts those that the classifiers see. Holds if there is any."""
    from servestudy.statistics.workload_features import CLASSIFIER_FEATURES

    features = set(evidence.table("workload_features").columns) - KEYS
    note = f"{len(features & set(CLASSIFIER_FEATURES))} of them are given to the classifiers"
    return Finding({"features": len(features)}, features, note)


def _defined(values: dict[str, float]) -> dict[str, float]:
    if pd.isna(list(values.values())).any():
        raise UndefinedError("no stratum could be held out")
    return values


def _sources(table: pd.DataFrame) -> str:
    return f"{int(table['sources'].iloc[0])} sources, {int(table['windows'].iloc[0])} windows"


TESTS = (separability, single_features, cross_against_within, effect_sign, feature_count)

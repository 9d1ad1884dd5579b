"""Claims about measurements on a real engine."""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, UndefinedError, stand_in

HEADLINE = {"variant": "main", "load": 1.05, "metric": "anwg", "windows": "bracketed"}
UNDECIDED = "undecided"


def same_winner_on_engine(evidence: Evidence, roles: list[str]) -> Finding:
    """Effect of SLAI on ANWG on each source; holds if one scheduler wins on all, undefined while one is undecided."""
    effects = evidence.table("spotcheck_effects")
    for column, value in HEADLINE.items():
        effects = effects[effects[column] == value]
    rows = [_of_source(effects, stand_in(role, effects["source"])) for role in roles]
    values = {role: float(row["effect"]) for role, row in zip(roles, rows, strict=True)}
    winners = [row["winner"] for row in rows]
    note = ", ".join(f"{row['source']}: {row['winner']}, {row['n_windows']} windows" for row in rows)
    return Finding(values, None if UNDECIDED in winners else len(set(winners)) == 1, note)


def _of_source(effects: pd.DataFrame, source: str) -> pd.Series:
    row = effects[effects["source"] == source].iloc[0]
    if not row["n_windows"]:
        raise UndefinedError(f"no window of {source} has both schedulers and a rate that the engine just sustains")
    return row


def pinned_windows(evidence: Evidence) -> Finding:
    """Windows for which no rate was found that the engine just sustains; holds if most are."""
    bracketed = evidence.table("spotcheck_windows")["bracketed"]
    pinned = int((~bracketed).sum())
    values = {"pinned": pinned, "converged": len(bracketed) - pinned, "of": len(bracketed)}
    return Finding(values, pinned > len(bracketed) / 2, "such windows do not count for winners")


def simulator_names_winner(evidence: Evidence) -> Finding:
    """Sources on which the simulator's winner is the engine's, of those where both have one.

    Holds if there are others.
    """
    table = evidence.table("spotcheck_agreement")
    table = table[(table["simulator"] == evidence.model) & (table["windows"] == HEADLINE["windows"])]
    decided = table[table["agreement"].isin(["agrees", "disagrees"])]
    note = ", ".join(f"{row['source']}: {row['agreement']}" for _, row in table.iterrows())
    if decided.empty:
        raise UndefinedError(f"no source has a winner both in the simulator and on the engine ({note})")
    agrees = int((decided["agreement"] == "agrees").sum())
    return Finding({"agrees": agrees, "of": len(decided)}, agrees < len(decided), note)


TESTS = (same_winner_on_engine, pinned_windows, simulator_names_winner)

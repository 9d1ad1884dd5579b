"""Table: one row an arm of the audit, with a sentence that says what it changes; every number comes from the run."""

from collections.abc import Mapping

import pandas as pd

from servestudy.audit.defects import DIAGNOSTICS, SWITCHES
from servestudy.audit.values import DUPLICATES, RUN
from servestudy.statistics.pair_difference import PAIR


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows in the order of the analysis: the run itself, then each arm."""
    agreement, reversals, difference, rankings = (
        tables[f"audit_{name}"].set_index(["switch", "arm"])
        for name in ("agreement", "reversals", "difference", "rankings")
    )
    keys = list(dict.fromkeys(agreement.index))
    n_run = int((_of(reversals, RUN)["status"] == "run").sum())
    signs_of_run = _signs(_of(difference, RUN))
    rows = []
    for key in keys:
        status = _of(reversals, key)["status"]
        counts = {name: int((status == name).sum()) for name in ("kept", "vanished", "new")}
        tau = _of(agreement, key)
        moved = _of(rankings, key)
        moved = moved[moved["rank"] != moved["rank_of_run"]] if key != DUPLICATES else moved[:0]
        signs = _signs(_of(difference, key))
        row = {
            "defect": key[0] or "none: the run itself",
            "arm": key[1],
            "rule": _rule(key),
            "mean_tau_b": tau["tau_b"].mean(),
            "tau_b_undefined": int(tau["tau_b"].isna().sum()),
            "supported_reversals": n_run if key == RUN else counts["kept"] + counts["new"],
            **(counts if key != RUN else {"kept": n_run, "vanished": 0, "new": 0}),
            "places_moved": len(moved),
            f"{PAIR[0]}_less_{PAIR[1]}": _pair_text(_of(difference, key)),
        }
        rows.append({**row, "statement": _statement(key, row, n_run, signs, signs_of_run, tau["tau_of_run"].mean())})
    return pd.DataFrame(rows)


def _of(frame: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    return frame.loc[[key]] if key in frame.index else frame[:0]


def _rule(key: tuple[str, str]) -> str:
    if key == DUPLICATES:
        return "schedulers that serve every request alike in all cells count once"
    return SWITCHES[key[0]].arms[key[1]].text if key[0] else "all rules as in the run"


def _signs(rows: pd.DataFrame) -> dict[tuple[str, str], int]:
    return {(row.region, row.source): int(row.sign) for row in rows.itertuples()}


def _pair_text(rows: pd.DataFrame) -> str:
    return "; ".join(
        f"{r.region} {r.source} {r.difference:+.3f} [{r.low:+.3f}, {r.high:+.3f}]" for r in rows.itertuples()
    )


def _statement(
    key: tuple[str, str],
    row: dict,
    n_run: int,
    signs: dict[tuple[str, str], int],
    signs_of_run: dict[tuple[str, str], int],
    tau_of_run: float,
) -> str:
    if key == RUN:
        return (
            f"The run itself has {n_run} supported reversals and a mean tau-b of {row['mean_tau_b']:.2f} "
            f"between sources; {PAIR[0]} and {PAIR[1]} are {_reversed_or_not(signs)}."
        )
    defect = SWITCHES[key[0]].statement if key[0] in SWITCHES else DIAGNOSTICS[key[0]].statement
    changed = [place for place, sign in signs.items() if sign != signs_of_run.get(place)]
    pair = (
        f"the sign of {PAIR[0]} less {PAIR[1]} changes in {len(changed)} of {len(signs)} conditions, and the two are "
        f"{_reversed_or_not(signs)}"
        if signs
        else f"{PAIR[0]} or {PAIR[1]} is merged into another scheduler"
    )
    return (
        f"{defect} Instead ({row['rule']}): {row['vanished']} of {n_run} supported reversals vanish and {row['new']} "
        f"appear; mean tau-b between sources goes from {tau_of_run:.2f} to {row['mean_tau_b']:.2f}; {pair}."
    )


def _reversed_or_not(signs: dict[tuple[str, str], int]) -> str:
    """In how many regions some source has one sign and another source the other."""
    regions = list(dict.fromkeys(region for region, _ in signs))
    both = [r for r in regions if {-1, 1} <= {sign for (region, _), sign in signs.items() if region == r}]
    return f"reversed between sources in {len(both)} of {len(regions)} regions"

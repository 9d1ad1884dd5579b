"""Theme: the study of priority tiers, as published and on the serving engine."""

from collections import Counter
from collections.abc import Sequence

from servestudy.paper.found import Found, Row, Tables
from servestudy.paper.wording import interval, listed, none_or, number, spaced
from servestudy.tabulation.tiers_hypotheses import REAL_KV_BLOCKS, K
from servestudy.tiers.load import BURST

GAINS, ABLATIONS, REPORTED, HYPOTHESES = "tiers/gains", "tiers/ablations", "tiers/reported", "tiers/hypotheses"
READS = (GAINS, ABLATIONS, REPORTED, HYPOTHESES)
OURS, SARATHI = "ours", "round_robin_sarathi"
SWITCHES = {
    "hold": "decodes_hold_kv=true",
    "cap": "batch_cap=true",
    "both": "batch_cap=true,decodes_hold_kv=true",
    "memory": f"total_blocks={REAL_KV_BLOCKS}",
    "migration": "migration=off",
    "headroom": "headroom=zero",
    "dispatch": "dispatch=round_robin",
    "limit": "time_limit_s=inf",
}
"""Rules of the published variant that the text speaks of, by key."""
PAIRED = "paired"
MOST = 0.9
"""A rule takes little of a speed-up if this share of its logarithm stays without the rule, as in the hypotheses."""


def add(found: Found, tables: Tables) -> None:
    """What the speed-up is made of, what tiers add, which rows of the study's files come out."""
    gains, ablations = tables.rows(GAINS), tables.rows(ABLATIONS)
    found.value("tiers.k", str(K), ABLATIONS)
    _published(found, ablations)
    _effect_of_tiers(found, gains)
    _trade(found, gains)
    _serving(found, gains, ablations)
    _reported(found, tables.rows(REPORTED))
    _hypotheses(found, tables.rows(HYPOTHESES))


def _published(found: Found, ablations: Sequence[Row]) -> None:
    """Speed-ups over the baseline with K tiers in the burst: as published, and with rules switched."""
    rows = [
        row
        for row in ablations
        if row["variant_of_the_study"] == "published"
        and (row["preset"], row["load"], row["tiers"], row["reference"]) == (BURST, BURST, str(K), "baseline")
    ]
    kept = {row["switched"]: float(row["gain"]) for row in rows if row["metric"] == "e2e_p99"}
    for key, switched in {"plain": "none", **SWITCHES}.items():
        found.fact(f"tiers.{key}", switched in kept)
        if switched in kept:
            found.value(f"tiers.{key}.e2e_p99", number(kept[switched]), ABLATIONS)
            found.fact(f"tiers.{key}.gains", kept[switched] > 1)
    credited = [kept.get(SWITCHES[key], 0.0) for key in ("migration", "headroom", "dispatch")]
    found.fact("tiers.credited_small", "none" in kept and min(credited) >= kept["none"] ** MOST)


def _effect_of_tiers(found: Found, gains: Sequence[Row]) -> None:
    """K tiers against the same requests as one tier, over paired seeds, E2E P99."""
    rows = [row for row in _paired(gains) if row["reference"] == "one_tier" and row["tiers"] != "1"]
    for model in ("published", "serving"):
        mine = [row for row in rows if row["variant_of_the_study"] == model]
        found.fact(f"tiers.paired.{model}", bool(mine))
        if not mine:
            continue
        above = [row for row in mine if float(row["low"]) > 1]
        found.value(f"tiers.paired.{model}.n", number(len(mine), 0), GAINS)
        found.value(f"tiers.paired.{model}.above", none_or(len(above)), GAINS)
        found.fact(f"tiers.paired.{model}.above", bool(above))
        found.value(f"tiers.paired.{model}.which", listed([_where(row) for row in above]), GAINS)
        found.value(f"tiers.paired.{model}.all", listed([_where(row) for row in mine]), GAINS)
        seeds = sorted({int(row["seeds"]) for row in mine})
        found.value(f"tiers.paired.{model}.seeds", " to ".join(map(str, seeds)), GAINS)


def _paired(gains: Sequence[Row]) -> list[Row]:
    """E2E P99 of the study's own system with an interval over seeds, on requests that are drawn."""
    return [
        row
        for row in gains
        if row["metric"] == "e2e_p99"
        and row["system"] == OURS
        and row["low"] != "undefined"
        and row["preset"] in (BURST, "serving")
        and (row["variant_of_the_study"] == "serving" or row["streams"] == PAIRED)
    ]


def _where(row: Row) -> str:
    load = "" if row["variant_of_the_study"] == "published" else _load(row["load"])
    return f"{_gain(row)} for K = {row['tiers']}{load}"


def _load(load: str) -> str:
    return " in the burst" if load == BURST else f" at load {load}"


def _gain(row: Row) -> str:
    return f"{number(float(row['gain']))} {interval(float(row['low']), float(row['high']))}"


def _trade(found: Found, gains: Sequence[Row]) -> None:
    """First tokens against further tokens, over the baseline in the burst as published, at the smallest volume."""
    rows = [
        row
        for row in gains
        if (row["variant_of_the_study"], row["preset"], row["system"]) == ("published", BURST, OURS)
        and (row["tiers"], row["reference"], row["streams"]) == (str(K), "baseline", "as the variant has them")
        and row["mix"] == "uniform"
    ]
    rows.sort(key=lambda row: int(row["requests"]))
    for metric in ("ttft_mean", "tbt_mean"):
        gain = next((float(row["gain"]) for row in rows if row["metric"] == metric), None)
        if gain is not None:
            found.value(f"tiers.trade.{metric}", number(gain), GAINS)
            found.fact(f"tiers.trade.{metric}.above", gain > 1)
    found.fact("tiers.trade", {"tiers.trade.ttft_mean", "tiers.trade.tbt_mean"} <= found.values.keys())


def _serving(found: Found, gains: Sequence[Row], ablations: Sequence[Row]) -> None:
    """Speed-ups over the baseline on the serving engine, by load: with K tiers, and of a system without tiers."""
    other = [
        row
        for row in ablations
        if (row["variant_of_the_study"], row["load"], row["tiers"]) == ("serving", BURST, str(K))
        and (row["switched"], row["metric"]) == ("dispatch=least_outstanding", "e2e_p99")
        and row["low"] != "undefined"
    ]
    found.fact("tiers.least_outstanding", len(other) == 2)
    if len(other) == 2:
        for row in other:
            found.value(f"tiers.least_outstanding.{row['reference']}", _gain(row), ABLATIONS)
            found.fact(f"tiers.least_outstanding.{row['reference']}.above", float(row["low"]) > 1)
    for name, system in (("ours", OURS), ("sarathi", SARATHI)):
        rows = [
            row
            for row in gains
            if (row["variant_of_the_study"], row["preset"], row["system"]) == ("serving", "serving", system)
            and (row["reference"], row["metric"], row["tiers"]) == ("baseline", "e2e_p99", str(K))
            and row["kv_blocks"] == str(REAL_KV_BLOCKS)
            and row["low"] != "undefined"
        ]
        steady = [row for row in rows if row["load"] != BURST]
        burst = [row for row in rows if row["load"] == BURST]
        found.fact(f"tiers.serving.{name}.steady", bool(steady))
        found.fact(f"tiers.serving.{name}.burst", bool(burst))
        if steady:
            found.value(
                f"tiers.serving.{name}.steady", listed([f"{_gain(r)}{_load(r['load'])}" for r in steady]), GAINS
            )
            found.fact(f"tiers.serving.{name}.steady_above", all(float(row["low"]) > 1 for row in steady))
        if burst:
            found.value(f"tiers.serving.{name}.burst", _gain(burst[0]), GAINS)
            found.fact(f"tiers.serving.{name}.burst_below", float(burst[0]["high"]) < 1)
            found.fact(f"tiers.serving.{name}.burst_above", float(burst[0]["low"]) > 1)


def _reported(found: Found, rows: Sequence[Row]) -> None:
    """Rows of the study's result files that come out within the allowed difference, by system."""
    all_of, good = Counter(), Counter()
    for row in rows:
        all_of[row["system"]] += 1
        good[row["system"]] += row["verdict"] == "reproduced"
    for system, count in all_of.items():
        found.value(f"tiers.rows.{system}", f"{number(good[system], 0)} of {number(count, 0)}", REPORTED)
        found.fact(f"tiers.rows.{system}", good[system] == count)
    found.value("tiers.rows.all", f"{number(good.total(), 0)} of {number(all_of.total(), 0)}", REPORTED)
    kinds = Counter(
        f"{spaced(row['system'])}, {spaced(row['metric'].removesuffix('_s'))}"
        for row in rows
        if row["verdict"] != "reproduced"
    )
    texts = [f"{kind} ({number(count, 0)})" for kind, count in sorted(kinds.items())]
    found.value("tiers.rows.missing", listed(texts), REPORTED)
    found.fact("tiers.rows.missing", bool(kinds))


def _hypotheses(found: Found, rows: Sequence[Row]) -> None:
    answers = Counter(row["answer"] for row in rows)
    for answer in ("supported", "not supported", "not decided"):
        found.value(f"tiers.hypotheses.{answer}", none_or(answers[answer]), HYPOTHESES)
    found.fact("tiers.order", any(row["hypothesis"] == "H10" and row["answer"] == "supported" for row in rows))
    found.value("tiers.hypotheses.n", number(len(rows), 0), HYPOTHESES)
    found.table(
        HYPOTHESES,
        ("", "hypothesis", "this run", "answer"),
        [[row["hypothesis"], row["statement"], row["evidence"], row["answer"]] for row in rows],
    )

"""Claims of the multi-tier study, about the system `ours` under the rules of its variant `published`."""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, NotEvaluatedError, UndefinedError, extremes

OURS, BASELINE, VARIANT = "ours", "infaas_vllm", "published"
ALL_TIERS = -1
CLEARLY = 0.05
"""Differences of speed-ups below this share do not count: one run a cell, and single iterations move P99 that much."""


def _speedups(evidence: Evidence, reference: str, mixes: list[str] | None = None) -> pd.DataFrame:
    """Rows of the burst against a reference; UndefinedError if there are none."""
    table = evidence.table("tier_speedups")
    wanted = (table["system"] == OURS) & (table["variant"] == VARIANT) & (table["preset"] == "burst")
    table = table[wanted & (table["reference"] == reference)]
    if mixes is not None:
        table = table[table["mix"].isin(mixes)]
    if table.empty:
        raise UndefinedError(f"no speed-up of {OURS} over {reference} with these mixes")
    return table


def tier_best_k(evidence: Evidence, mixes: list[str], best: int) -> Finding:
    """The K of the largest mean P99 speed-up over volumes and seeds, by mix; holds if it is `best` everywhere, clearly.

    Clearly: above the same system without tiers, on the same requests, in each mix.
    """
    by_mix = _speedups(evidence, "baseline", mixes).groupby(["mix", "tiers"])["e2e_p99_speedup"].mean()
    values = {mix: int(by_mix[mix].idxmax()) for mix in mixes if mix in by_mix.index}
    against_one = _speedups(evidence, "one_tier", mixes)
    gains = against_one[against_one["tiers"] == best].groupby("mix")["e2e_p99_speedup"].mean()
    if gains.empty:
        raise UndefinedError(f"K = {best} was not run")
    note = f"K = {best} over one tier on the same requests: " + ", ".join(f"{mix} {x:.3f}" for mix, x in gains.items())
    for first, last in ((1, 5), (2, 5)):
        within = {mix: by_mix[mix].loc[first:last].idxmax() for mix in values}
        note += f"; best of {first} to {last}: " + ", ".join(f"{mix} {k}" for mix, k in within.items())
    return Finding(values, all(k == best for k in values.values()) and gains.min() > 1 + CLEARLY, note)


def tier_plateau(evidence: Evidence, mixes: list[str]) -> Finding:
    """The smallest K that no larger one beats clearly in mean P99 speed-up; holds if a larger K than 1 is needed."""
    mean = _speedups(evidence, "baseline", mixes).groupby("tiers")["e2e_p99_speedup"].mean().sort_index()
    plateau = next(k for k in mean.index if mean[mean.index >= k].max() <= mean[k] * (1 + CLEARLY))
    return Finding({"plateau_k": int(plateau)}, plateau > 1, ", ".join(f"K = {k}: {x:.2f}" for k, x in mean.items()))


def tier_speedup_range(evidence: Evidence, metric: str, mixes: list[str], requests: int | None = None) -> Finding:
    """Range of a speed-up over the baseline, or of the gain in cost per latency in percent; holds if all are gains."""
    table = _speedups(evidence, "baseline", mixes)
    table = table if requests is None else table[table["requests"] == requests]
    if metric == "cost_per_latency_gain":
        numbers, least_gain = 100 * table[metric], 0.0
    else:
        numbers, least_gain = table[f"{metric}_speedup"], 1.0
    values = extremes(numbers)
    same = _speedups(evidence, "one_tier", mixes)
    note = f"{(same['e2e_p99_speedup'] > 1 + CLEARLY).sum()} of {len(same)} cells clearly beat one tier in E2E P99"
    return Finding(values, values["min"] > least_gain, note)


def tier_stable_over_k(evidence: Evidence, metric: str, system: str = OURS) -> Finding:
    """Largest over smallest value of a metric over K in the comparison scripts' workload; holds if below 1.05."""
    table = evidence.table("tier_metrics")
    wanted = (table["preset"] == "fixed") & (table["system"] == system) & (table["tier"] == ALL_TIERS)
    numbers = table[wanted & (table["variant"] == VARIANT)].set_index("tiers")[f"{metric}_s"]
    if len(numbers) < 2:
        raise UndefinedError("fewer than two K were run on the workload `fixed`")
    ratio = float(numbers.max() / numbers.min())
    return Finding({"largest_over_smallest": ratio}, ratio < 1 + CLEARLY, f"K = {sorted(numbers.index)}")


def tier_high_priority(evidence: Evidence, mixes: list[str]) -> Finding:
    """Largest E2E P99 speed-up of tier 0 over the same requests under the baseline; holds if K = 4 is not beaten."""
    table = evidence.table("tier_metrics")
    table = table[(table["preset"] == "burst") & (table["tier"] == 0) & (table["variant"] == VARIANT)]
    table = table[table["mix"].isin(mixes) & (table["tiers"] > 1)]
    keys = ["tiers", "mix", "requests", "seed"]
    sides = (table[table["system"] == name].set_index(keys)["e2e_p99_s"] for name in (BASELINE, OURS))
    ours_and_theirs = pd.concat(sides, axis=1, keys=["theirs", "ours"], join="inner")
    if ours_and_theirs.empty:
        raise UndefinedError("no cell has the latencies of tier 0 under both systems")
    speedup = ours_and_theirs["theirs"] / ours_and_theirs["ours"]
    by_k = speedup.groupby("tiers").mean()
    holds = None if 4 not in by_k.index else bool(by_k.max() <= by_k[4] * (1 + CLEARLY))
    return Finding({"max": float(speedup.max())}, holds, ", ".join(f"K = {k}: {x:.2f}" for k, x in by_k.items()))


def tier_needs_rates(evidence: Evidence) -> Finding:
    """Claims about moderate load and near saturation, whose request rates no publication of the study states."""
    raise NotEvaluatedError("the study states no pair of request rates; under the serving model see the load regions")


TESTS = (
    tier_best_k,
    tier_plateau,
    tier_speedup_range,
    tier_stable_over_k,
    tier_high_priority,
    tier_needs_rates,
)

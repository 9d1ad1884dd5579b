"""Claims of the multi-tier study, about the system `ours` under its variant's own rules.

Published model: the burst of the study. Serving model: the same burst on replicas with the memory of the real GPU.
A gain counts where the interval over seeds lies above 1; a single run a cell, as in the study, has no interval, so that
paired seeds decide.
"""

import pandas as pd

from servestudy.claim_tests.evidence import Evidence, Finding, NotEvaluatedError, UndefinedError, extremes

OURS, BASELINE = "ours", "infaas_vllm"
RULES = "published"  # the preset's own
ALL_TIERS = -1
PRESET = {"published": "burst", "serving": "serving"}
REAL_KV_BLOCKS = 7424
PAIRED = {"published": "streams=separate", "serving": RULES}  # variants with paired seeds
MODERATE, SATURATED = "0.7", "1.1"


def _burst(table: pd.DataFrame, model: str, variant: str = RULES) -> pd.DataFrame:
    """Rows of the burst under one variant; of the serving model, with the real memory."""
    wanted = (table["preset"] == PRESET[model]) & (table["load"] == "burst") & (table["variant"] == variant)
    return table[wanted & ((model == "published") | (table["kv_blocks"] == REAL_KV_BLOCKS))]


def _speedups(evidence: Evidence, reference: str, mixes: list[str]) -> pd.DataFrame:
    """Rows of ours in the burst against a reference; UndefinedError if there are none."""
    table = _burst(evidence.table("tier_speedups"), evidence.model)
    table = table[(table["system"] == OURS) & (table["reference"] == reference) & table["mix"].isin(mixes)]
    if table.empty:
        raise UndefinedError(f"no speed-up of {OURS} over {reference} with these mixes")
    return table


def _gains_over_one_tier(evidence: Evidence, mixes: list[str]) -> pd.DataFrame:
    """E2E P99 of ours against the same requests as one tier, by K and mix, over paired seeds; those with intervals."""
    table = _burst(evidence.table("tier_gains"), evidence.model, PAIRED[evidence.model])
    wanted = (table["system"] == OURS) & (table["reference"] == "one_tier") & (table["metric"] == "e2e_p99")
    return table[wanted & table["mix"].isin(mixes) & table["low"].notna()]


def _intervals(rows: pd.DataFrame) -> str:
    return ", ".join(f"K = {r.tiers} {r.mix} {r.gain:.3f} [{r.low:.3f}, {r.high:.3f}]" for r in rows.itertuples())


def tier_best_k(evidence: Evidence, mixes: list[str], best: int) -> Finding:
    """The K of the largest mean P99 speed-up over volumes and seeds, by mix.

    Holds if it is `best` everywhere and the interval of its gain over one tier lies above 1 wherever there is one.
    """
    by_mix = _speedups(evidence, "baseline", mixes).groupby(["mix", "tiers"])["e2e_p99_speedup"].mean()
    values = {mix: int(by_mix[mix].idxmax()) for mix in mixes if mix in by_mix.index}
    gains = _gains_over_one_tier(evidence, mixes)
    gains = gains[gains["tiers"] == best]
    note = f"over one tier on the same requests: {_intervals(gains) or f'K = {best} was not run with several seeds'}"
    for first, last in ((1, 5), (2, 5)):
        within = {mix: by_mix[mix].loc[first:last] for mix in values}
        note += f"; best of {first} to {last}: " + ", ".join(
            f"{mix} {k.idxmax()}" for mix, k in within.items() if len(k)
        )
    if any(k != best for k in values.values()):
        return Finding(values, False, note)
    return Finding(values, None if gains.empty else bool((gains["low"] > 1).all()), note)


def tier_plateau(evidence: Evidence, mixes: list[str]) -> Finding:
    """The K of the largest mean P99 speed-up over mixes and volumes, beyond which nothing is gained; holds above 1."""
    mean = _speedups(evidence, "baseline", mixes).groupby("tiers")["e2e_p99_speedup"].mean().sort_index()
    plateau = int(mean.idxmax())
    return Finding({"plateau_k": plateau}, plateau > 1, ", ".join(f"K = {k}: {x:.2f}" for k, x in mean.items()))


def tier_speedup_range(evidence: Evidence, metric: str, mixes: list[str], requests: int | None = None) -> Finding:
    """Range of a speed-up over the baseline, or of the gain in cost per latency in percent; holds if all are gains."""
    table = _speedups(evidence, "baseline", mixes)
    if requests is not None:
        table = table[table["requests"] == requests]
    if metric == "cost_per_latency_gain":
        numbers, least_gain = 100 * table[metric], 0.0
    else:
        numbers, least_gain = table[f"{metric}_speedup"], 1.0
    values = extremes(numbers)
    note = (
        f"over one tier on the same requests, E2E P99: {_intervals(_gains_over_one_tier(evidence, mixes)) or 'not run'}"
    )
    return Finding(values, values["min"] > least_gain, note)


def tier_stable_over_k(evidence: Evidence, metric: str, most: float, system: str = OURS) -> Finding:
    """Largest over smallest value of a metric over K in the comparison scripts' workload; holds if not above `most`."""
    table = evidence.table("tier_metrics")
    wanted = (
        table["preset"].isin(("fixed", "fixed_serving")) & (table["system"] == system) & (table["tier"] == ALL_TIERS)
    )
    numbers = table[wanted & (table["variant"] == RULES)].set_index("tiers")[f"{metric}_s"]
    if len(numbers) < 2:
        raise UndefinedError("fewer than two K were run on the workload `fixed`")
    ratio = float(numbers.max() / numbers.min())
    return Finding({"largest_over_smallest": ratio}, ratio <= most, f"K = {sorted(numbers.index)}")


def tier_high_priority(evidence: Evidence, mixes: list[str]) -> Finding:
    """Largest E2E P99 speed-up of tier 0 over the same requests under the baseline; holds if no K above 4 beats 4."""
    table = _burst(evidence.table("tier_metrics"), evidence.model)
    table = table[(table["tier"] == 0) & table["mix"].isin(mixes) & (table["tiers"] > 1)]
    keys = ["tiers", "mix", "requests", "seed"]
    sides = (table[table["system"] == name].set_index(keys)["e2e_p99_s"] for name in (BASELINE, OURS))
    ours_and_theirs = pd.concat(sides, axis=1, keys=["theirs", "ours"], join="inner")
    if ours_and_theirs.empty:
        raise UndefinedError("no cell has the latencies of tier 0 under both systems")
    speedup = ours_and_theirs["theirs"] / ours_and_theirs["ours"]
    by_k = speedup.groupby("tiers").mean()
    holds = None if 4 not in by_k.index else bool(by_k.loc[4:].max() == by_k[4])
    return Finding({"max": float(speedup.max())}, holds, ", ".join(f"K = {k}: {x:.2f}" for k, x in by_k.items()))


def tier_load_dependence(evidence: Evidence, mixes: list[str]) -> Finding:
    """Does the gain over the baseline fade from moderate load (0.7 of the capacity) to saturation (1.1)?

    The publications state no rates, so the published model has none to run.
    """
    if evidence.model == "published":
        raise NotEvaluatedError("the study states no pair of request rates; under the serving model see the loads")
    table = evidence.table("tier_gains")
    wanted = (table["system"] == OURS) & (table["variant"] == RULES) & (table["preset"] == PRESET[evidence.model])
    wanted &= (table["reference"] == "baseline") & (table["kv_blocks"] == REAL_KV_BLOCKS)
    table = table[wanted & (table["metric"] == "e2e_p99") & table["mix"].isin(mixes)]
    by_load = table.groupby("load")["gain"].mean()
    if not {MODERATE, SATURATED} <= set(by_load.index):
        raise UndefinedError(f"loads {MODERATE} and {SATURATED} were not both run")
    fades = bool(by_load[SATURATED] < by_load[MODERATE])
    note = "E2E P99 over the baseline: " + ", ".join(f"load {load} {gain:.2f}" for load, gain in by_load.items())
    return Finding({"gain": "fades near saturation" if fades else "grows towards saturation"}, fades, note)


TESTS = (
    tier_best_k,
    tier_plateau,
    tier_speedup_range,
    tier_stable_over_k,
    tier_high_priority,
    tier_load_dependence,
)

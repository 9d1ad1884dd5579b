"""Table: the study's result files beside both variants, a row a scheduler, K and metric.

A row that is off is explained by a rule that its source leaves open, if the reported value lies within what that rule
makes of the row in this run.
"""

from collections.abc import Mapping

import pandas as pd

from servestudy.tiers.reported import repeated_values, reported_values

ALLOWED = {"round_robin_vllm": 0.02, "round_robin_orca": 0.03, "round_robin_sarathi": 0.03, "ours": 0.03}
"""What this project set itself before the first run: vLLM within 2 %, the others within 3 %."""
RULES = {
    "decode_attention": ["published", "decode_attention=0.95", "decode_attention=1.05"],
    "prefill_attention": [
        "prefill_attention=arithmetic",
        "decode_attention=0.95,prefill_attention=arithmetic",
        "decode_attention=1.05,prefill_attention=arithmetic",
    ],
}
"""Variants that show what a rule makes of a row: the attention of decodes 5 % cheaper and dearer, and the same with the
other reading of a prompt's attention."""
EXPLANATIONS = {
    "decode_attention": "decode_attention: the phase of iterations, which differs between the study's own files too",
    "prefill_attention": "prefill_attention: how much of a prompt's attention two prompts in one batch share, and the "
    "phase of iterations",
}


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows whose cell this run does not have say so."""
    table = tables["published_tier_metrics"]
    table = table[(table["preset"] == "fixed") & (table["tier"] == -1)]
    found = table.set_index(["system", "tiers", "variant"])
    serving = tables["serving_tier_metrics"]
    serving = serving[(serving["preset"] == "fixed_serving") & (serving["tier"] == -1)]
    serving = serving[serving["variant"] == "published"].set_index(["system", "tiers"])
    again = repeated_values()
    rows = []
    for (system, tiers, metric), reported in reported_values().items():
        value = found[metric].get((system, tiers, "published"), float("nan"))
        error = value / reported - 1
        verdict = "not run" if pd.isna(value) else "reproduced" if abs(error) <= ALLOWED[system] else "not reproduced"
        ranges = {rule: _range(found[metric], system, tiers, variants) for rule, variants in RULES.items()}
        rows.append(
            {
                "system": system,
                "tiers": tiers,
                "metric": metric,
                "reported_s": reported,
                "this_run_s": value,
                "difference": error,
                "allowed": ALLOWED[system],
                "verdict": verdict,
                "explanation": _explanation(reported, ranges) if verdict == "not reproduced" else "",
                "serving_s": serving[metric].get((system, tiers), float("nan")),
                "study_again_s": again.get((system, tiers, metric), float("nan")),
                **{f"{rule}_{end}_s": value for rule, both in ranges.items() for end, value in both.items()},
            }
        )
    return pd.DataFrame(rows)


def _range(values: pd.Series, system: str, tiers: int, variants: list[str]) -> dict[str, float]:
    """NaN without one of the variants."""
    found = values.reindex([(system, tiers, variant) for variant in variants])
    return {"low": found.min(skipna=False), "high": found.max(skipna=False)}


def _explanation(reported: float, ranges: Mapping[str, Mapping[str, float]]) -> str:
    """The first rule whose range holds the reported value."""
    rules = [rule for rule, both in ranges.items() if both["low"] <= reported <= both["high"]]
    return EXPLANATIONS[rules[0]] if rules else "not explained"

"""Table: the study's result files beside the published variant, a row a scheduler, K and metric."""

from collections.abc import Mapping

import pandas as pd

from servestudy.tiers.reported import reported_values

ALLOWED = {"round_robin_vllm": 0.02, "round_robin_orca": 0.03, "round_robin_sarathi": 0.03, "ours": 0.03}
"""What this project set itself before the first run: vLLM within 2 %, the others within 3 %."""
EXPLANATIONS = {
    "ttft_mean_s": "perhaps a step of the GPU just above 512 tokens, of which its profile has no point: 2 ms there and "
    "prefill_attention=arithmetic bring the means within 3 %; not adopted, as that would be tuned to these values",
    "ttft_p99_s": "not explained: the eighth-largest of 800 values; with such a step it is off by as much at other K",
}


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows whose cell this run does not have say so."""
    table = tables["published_tier_metrics"]
    table = table[(table["preset"] == "fixed") & (table["tier"] == -1) & (table["variant"] == "published")]
    found = table.set_index(["system", "tiers"])
    rows = []
    for (system, tiers, metric), reported in reported_values().items():
        value = found[metric].get((system, tiers), float("nan"))
        error = value / reported - 1
        is_near = abs(error) <= ALLOWED[system]
        verdict = "not run" if pd.isna(value) else "reproduced" if is_near else "not reproduced"
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
                "explanation": EXPLANATIONS.get(metric, "not explained") if verdict == "not reproduced" else "",
            }
        )
    return pd.DataFrame(rows)

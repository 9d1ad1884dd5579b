"""The tables by name. Each is made of analysis tables and of what is registered about sources, schedulers, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from servestudy.model_names import of_both_models

if TYPE_CHECKING:
    import pandas as pd

WINDOW_INDEX = "window_index"
CLAIMS = "claims"


@dataclass(frozen=True)
class Table:
    """`module` has the function `tabulate(tables)`: data frames by the names in `reads` to the rows of the table.

    `reads` names the analyses that it needs, with the columns: the data frames have these alone.
    """

    module: str
    text: str
    reads: dict[str, tuple[str, ...]]


TABLES = {
    "sources": Table(
        "servestudy.tabulation.sources",
        "the trace sources: what they are, what they stand for, their windows",
        {
            WINDOW_INDEX: (
                "source",
                "request_count",
                "valid_rows",
                "duration_s",
                "prompt_tokens_mean",
                "output_tokens_mean",
                "arrival_rate_rps",
                "burstiness_b",
            )
        },
    ),
    "schedulers": Table(
        "servestudy.tabulation.schedulers",
        "the schedulers: family, fidelity, what they stand for",
        {"ranking": ("scheduler",)},
    ),
    "metrics": Table(
        "servestudy.tabulation.metrics",
        "the metrics: definition, when undefined, how often",
        {"ranking": ("source", "region", "metric", "windows_defined", "windows_undefined")},
    ),
    "tau_by_region": Table(
        "servestudy.tabulation.tau_by_region",
        "mean, smallest and largest tau-b over the source pairs, by region",
        {"agreement": ("metric", "region", "n_schedulers", "tau_b", "n_excluded")},
    ),
    "rankings": Table(
        "servestudy.tabulation.rankings",
        "the primary schedulers in order of mean ANWG, by source and region",
        {"ranking": ("source", "region", "metric", "scheduler", "mean", "windows_defined", "windows_undefined")},
    ),
    "supported_reversals": Table(
        "servestudy.tabulation.supported_reversals",
        "the supported reversals of the ANWG ranking, with intervals and absolute differences",
        {
            "reversals": (
                "rule",
                "metric",
                "region",
                "source_x",
                "source_y",
                "scheduler_a",
                "scheduler_b",
                "reversal_class",
                "difference_x",
                "low_x",
                "high_x",
                "difference_y",
                "low_y",
                "high_y",
                "smaller_difference",
                "effect",
                "p",
                "p_adjusted",
                "supported_after_fdr",
                "n_excluded",
            )
        },
    ),
    "first_n": Table(
        "servestudy.tabulation.first_n",
        "the first number of windows that recovers the ranking in 90 % of draws, by source and metric",
        {
            "sample_complexity": (
                "source",
                "metric",
                "rule",
                "criterion",
                "n_windows",
                "n_windows_available",
                "n_schedulers",
                "n_excluded",
                "probability",
                "is_first_n",
            )
        },
    ),
    "robustness": Table(
        "servestudy.tabulation.robustness",
        "mean tau-b of each robustness family and variant",
        {
            "robustness": (
                "family",
                "variant",
                "metric",
                "n_conditions",
                "n_conditions_undefined",
                "n_conditions_below_two",
                "n_excluded",
                "mean_tau_b",
                "min_tau_b",
                "max_tau_b",
            )
        },
    ),
    "claims": Table(
        "servestudy.tabulation.claims",
        "the study's claims: reported and reproduced values, verdicts",
        {
            CLAIMS: (
                "claim",
                "statement",
                "reported",
                "reproduced",
                "serving",
                "verdict",
                "direction_holds",
                "serving_direction_holds",
                "evidence",
                "note",
            )
        },
    ),
}


AUDIT_TABLES = {
    "arms": Table(
        "servestudy.tabulation.audit_arms",
        "one row an arm of the audit, with a sentence that says what it changes",
        {
            "audit_agreement": ("switch", "arm", "tau_b", "tau_of_run"),
            "audit_reversals": ("switch", "arm", "status"),
            "audit_difference": ("switch", "arm", "source", "region", "difference", "low", "high", "sign"),
            "audit_rankings": ("switch", "arm", "rank", "rank_of_run"),
        },
    ),
    "arm_rankings": Table(
        "servestudy.tabulation.audit_analysis",
        "ANWG, place and completion of every scheduler by arm of the audit, beside those of the run",
        {
            "audit_rankings": (
                "switch",
                "arm",
                "source",
                "region",
                "scheduler",
                "ran_again",
                "anwg",
                "anwg_of_run",
                "rank",
                "rank_of_run",
                "completion_fraction",
                "completion_fraction_of_run",
            )
        },
    ),
    "arm_reversals": Table(
        "servestudy.tabulation.audit_analysis",
        "supported reversals by arm of the audit, with intervals; those of the run that vanish as well",
        {
            "audit_reversals": (
                "switch",
                "arm",
                "status",
                "region",
                "source_x",
                "source_y",
                "scheduler_a",
                "scheduler_b",
                "reversal_class",
                "difference_x",
                "low_x",
                "high_x",
                "difference_y",
                "low_y",
                "high_y",
                "effect",
            )
        },
    ),
    "arm_agreement": Table(
        "servestudy.tabulation.audit_analysis",
        "tau-b of each pair of sources by arm of the audit, with intervals",
        {
            "audit_agreement": (
                "switch",
                "arm",
                "region",
                "source_x",
                "source_y",
                "n_schedulers",
                "tau_b",
                "tau_low",
                "tau_high",
                "tau_of_run",
            )
        },
    ),
    "arm_slai_less_vllm": Table(
        "servestudy.tabulation.audit_analysis",
        "ANWG of slai_faithful less vllm_faithful by arm of the audit, source and region, with intervals",
        {
            "audit_difference": (
                "switch",
                "arm",
                "source",
                "region",
                "n_windows",
                "difference",
                "low",
                "high",
                "sign",
            )
        },
    ),
    "models": Table(
        "servestudy.tabulation.models",
        "the study's headline under both engine models, one row a quantity, with a sentence",
        {
            CLAIMS: ("claim", "reported"),
            **of_both_models(
                {
                    "ranking": ("source", "region", "metric", "scheduler", "mean"),
                    "distinctness": ("n_distinct",),
                    "agreement_intervals": ("metric", "region", "source_x", "source_y", "tau_b", "tau_low", "tau_high"),
                    "reversals": (
                        "rule",
                        "metric",
                        "region",
                        "source_x",
                        "source_y",
                        "scheduler_a",
                        "scheduler_b",
                        "reversal_class",
                    ),
                    "pair_difference": ("source", "region", "difference", "low", "high", "sign"),
                    "cross_metric_agreement": ("tau_b", "top1_agrees"),
                    "sample_complexity": (
                        "source",
                        "metric",
                        "rule",
                        "criterion",
                        "n_windows",
                        "probability",
                        "is_first_n",
                    ),
                }
            ),
        },
    ),
    "models_rankings": Table(
        "servestudy.tabulation.models_rankings",
        "mean ANWG and rank of every scheduler under both engine models, by source and region",
        of_both_models(
            {
                "ranking": ("source", "region", "metric", "scheduler", "mean"),
                "distinctness": ("source", "region", "equals"),
            }
        ),
    ),
}
_TIER_GAINS = (
    *("preset", "system", "variant", "tiers", "mix", "requests", "load", "kv_blocks", "reference", "metric"),
    *("seeds", "gain", "low", "high"),
)
_TIER_CELLS = (
    *("preset", "system", "variant", "tiers", "mix", "requests", "load", "kv_blocks", "seed", "tier", "completed"),
    *("of_tier", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tbt_mean_s", "tbt_published_mean_s"),
    *("tbt_p99_s", "tbt_published_p99_s", "e2e_mean_s", "e2e_p50_s", "e2e_p90_s", "e2e_p99_s", "slo_attainment"),
    *("least_attainment", "jain_of_tiers", "jain_of_requests", "longest_wait_s", "restarts", "migrations"),
    *("moves_aborted", "end_s", "gpu_busy_s", "gpu_paid_s", "usd", "drained_replica_s"),
)
TIER_TABLES = {
    "claims_of_tiers": Table(
        "servestudy.tabulation.claims",
        "the claims of the tiers study: reported, as published, on the serving engine, verdicts",
        TABLES["claims"].reads,
    ),
    "reported": Table(
        "servestudy.tabulation.tiers_reported",
        "the study's result files by scheduler and K beside this run, with what explains a difference",
        {"published_tier_metrics": _TIER_CELLS, "serving_tier_metrics": _TIER_CELLS},
    ),
    "constants": Table(
        "servestudy.tabulation.tiers_constants",
        "every rule and constant by preset, and the headroom by number of tiers",
        {f"{model}_tier_metrics": ("preset",) for model in ("published", "serving")},
    ),
    "portability": Table(
        "servestudy.tabulation.tiers_portability",
        "rankings of numbers of tiers and of systems between sources and loads: tau-b, reversals",
        {"serving_tier_metrics": _TIER_CELLS},
    ),
    "best_k": Table(
        "servestudy.tabulation.tiers_best_k",
        "the best number of tiers and the best system of each cell, and the seeds it takes to find them again",
        {"serving_tier_metrics": _TIER_CELLS},
    ),
    "systems": Table(
        "servestudy.tabulation.tiers_systems",
        "latencies, fairness, cost of every system, by load and memory",
        {"published_tier_metrics": _TIER_CELLS, "serving_tier_metrics": _TIER_CELLS},
    ),
    "gains": Table(
        "servestudy.tabulation.tiers_gains",
        "speed-ups by number of tiers, with intervals over paired seeds",
        {"published_tier_gains": _TIER_GAINS, "serving_tier_gains": _TIER_GAINS},
    ),
    "ablations": Table(
        "servestudy.tabulation.tiers_ablations",
        "each switched rule: the speed-up that is left, and the effect of tiers under it",
        {"published_tier_gains": _TIER_GAINS, "serving_tier_gains": _TIER_GAINS},
    ),
    "hypotheses": Table(
        "servestudy.tabulation.tiers_hypotheses",
        "hypotheses about artefacts of the study, each with the numbers of this run and an answer",
        {
            "published_tier_gains": _TIER_GAINS,
            "serving_tier_gains": _TIER_GAINS,
            "published_tier_metrics": _TIER_CELLS,
            "serving_tier_metrics": _TIER_CELLS,
        },
    ),
}
ALL_TABLES = TABLES | AUDIT_TABLES | TIER_TABLES


def write_csv_table(name: str, files: dict[str, Path], title: str, model: str, out: Path | str) -> pd.DataFrame:
    """Make a table and write it as CSV; its first columns name the trace set and the engine model.

    Undefined values are written as `undefined`; a table without any row says `none`. Raises UserError as
    `read_named_tables` does.
    """
    from servestudy.files import atomic_path
    from servestudy.named_tables import read_named_tables

    table = ALL_TABLES[name]
    rows = import_module(table.module).tabulate(read_named_tables(f"table {name}", files, table.reads))
    if rows.empty:
        rows = rows.reindex([0]).astype(object).fillna("none")
    rows.insert(0, "trace_set", title)
    rows.insert(1, "model", model)
    with atomic_path(out) as part:
        rows.to_csv(part, index=False, na_rep="undefined", lineterminator="\n")
    return rows

"""The figures by name. Each reads columns of analysis tables and nothing else."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from servestudy.model_names import of_both_models


@dataclass(frozen=True)
class Figure:
    """`module` has the function `draw(tables, context)`, which returns a matplotlib figure.

    `reads` names the analyses whose tables it needs, with the columns: the tables that it gets have these alone.
    """

    module: str
    text: str
    reads: dict[str, tuple[str, ...]]


FIGURES = {
    "tau_heatmap": Figure(
        "servestudy.plotting.tau_heatmap",
        "tau-b of the ANWG rankings, source pairs by regions",
        {"agreement": ("metric", "region", "source_x", "source_y", "tau_b", "n_schedulers")},
    ),
    "reversal_matrix": Figure(
        "servestudy.plotting.reversal_matrix",
        "pairs of schedulers in each reversal class, by region",
        {"reversals": ("rule", "metric", "region", "reversal_class")},
    ),
    "sample_complexity": Figure(
        "servestudy.plotting.sample_complexity",
        "how often a draw of windows recovers the ranking, by number of windows",
        {"sample_complexity": ("source", "metric", "rule", "criterion", "n_windows", "n_draws", "probability")},
    ),
    "tau_intervals": Figure(
        "servestudy.plotting.tau_intervals",
        "tau-b and rho with intervals, by region and source pair",
        {
            "agreement_intervals": (
                "metric",
                "region",
                "source_x",
                "source_y",
                "tau_b",
                "tau_low",
                "tau_high",
                "rho",
                "rho_low",
                "rho_high",
            )
        },
    ),
    "non_tied_share": Figure(
        "servestudy.plotting.non_tied_share",
        "share of windows where the schedulers differ at all, with Wilson intervals",
        {"discriminability": ("metric", "source", "region", "counted", "n", "share", "low", "high")},
    ),
    "metric_tau_map": Figure(
        "servestudy.plotting.metric_tau_map",
        "metric by metric: mean and range of tau-b",
        {"cross_metric_agreement": ("source", "region", "metric_a", "metric_b", "tau_b")},
    ),
    "distinctness": Figure(
        "servestudy.plotting.distinctness",
        "schedulers that behave differently, and tau-b with equals merged",
        {
            "distinctness": ("source", "region", "n_schedulers", "n_distinct"),
            "distinct_agreement": ("region", "source_x", "source_y", "tau_b", "tau_b_distinct"),
        },
    ),
    "reversal_map": Figure(
        "servestudy.plotting.reversal_map",
        "scheduler by scheduler: how often their order changes between two sources",
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
            )
        },
    ),
    "tau_and_reversals_by_region": Figure(
        "servestudy.plotting.tau_and_reversals_by_region",
        "mean tau-b and share of reversals, by region",
        {"agreement": ("metric", "region", "tau_b"), "reversals": ("rule", "metric", "region", "reversal_class")},
    ),
    "temporal_tau": Figure(
        "servestudy.plotting.temporal_tau",
        "tau-b of earlier and later windows of each source, with intervals",
        {"temporal": ("source", "rule", "published", "region", "group_x", "group_y", "tau_b", "tau_low", "tau_high")},
    ),
    "slo_sensitivity": Figure(
        "servestudy.plotting.slo_sensitivity",
        "tau-b with the ranking by the usual deadlines, and what becomes of the reversals, under other deadlines",
        {
            "slo_agreement": ("rule", "multiplier", "region", "source", "tau_b", "tau_low", "tau_high"),
            "slo_persistence": ("rule", "multiplier", "outcome"),
        },
    ),
    "descriptor_ecdf": Figure(
        "servestudy.plotting.descriptor_ecdf",
        "distributions of window descriptors, by source",
        {
            "workload_features": (
                "source",
                "prompt_tokens_mean",
                "output_tokens_mean",
                "interarrival_p50_s",
                "mean_arrival_rate_rps",
            )
        },
    ),
    "separability_drivers": Figure(
        "servestudy.plotting.separability_drivers",
        "the features that tell the sources apart",
        {"separability_drivers": ("change", "item", "folds", "balanced_accuracy_mean", "balanced_accuracy_sd", "fall")},
    ),
}


AUDIT_FIGURES = {
    "reversals_by_arm": Figure(
        "servestudy.plotting.audit_reversals",
        "supported reversals that each arm of the audit keeps, loses, adds",
        {"audit_agreement": ("switch", "arm"), "audit_reversals": ("switch", "arm", "status")},
    ),
    "slai_less_vllm_by_arm": Figure(
        "servestudy.plotting.audit_difference",
        "ANWG of slai_faithful less vllm_faithful by arm of the audit and source, with intervals",
        {"audit_difference": ("switch", "arm", "source", "region", "difference", "low", "high")},
    ),
    "tau_by_arm": Figure(
        "servestudy.plotting.audit_tau",
        "tau-b of each pair of sources by arm of the audit, with intervals",
        {"audit_agreement": ("switch", "arm", "region", "source_x", "source_y", "tau_b", "tau_low", "tau_high")},
    ),
    "models_tau": Figure(
        "servestudy.plotting.models_tau",
        "tau-b of the ANWG rankings under both engine models, between sources and between the models",
        of_both_models(
            {
                "agreement_intervals": ("metric", "region", "source_x", "source_y", "tau_b", "tau_low", "tau_high"),
                "ranking": ("source", "region", "metric", "scheduler", "mean"),
            }
        ),
    ),
    "models_reversals": Figure(
        "servestudy.plotting.models_reversals",
        "reversal classes under both engine models, and the supported reversals that are the same",
        of_both_models(
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
                )
            }
        ),
    ),
    "models_difference": Figure(
        "servestudy.plotting.models_difference",
        "ANWG of slai_faithful less vllm_faithful under both engine models, with intervals",
        of_both_models({"pair_difference": ("source", "region", "difference", "low", "high")}),
    ),
    "models_cross_metric": Figure(
        "servestudy.plotting.models_cross_metric",
        "metric by metric: mean tau-b under both engine models",
        of_both_models({"cross_metric_agreement": ("source", "region", "metric_a", "metric_b", "tau_b")}),
    ),
    "models_sample_complexity": Figure(
        "servestudy.plotting.models_sample_complexity",
        "how often a draw of windows recovers the ranking under both engine models",
        of_both_models(
            {"sample_complexity": ("source", "metric", "rule", "criterion", "n_windows", "n_draws", "probability")}
        ),
    ),
}
_GAIN = ("preset", "system", "variant", "tiers", "mix", "requests", "load", "kv_blocks", "reference", "metric", "gain")
_CELL = ("preset", "system", "variant", "tiers", "mix", "requests", "load", "kv_blocks", "seed", "tier")
TIER_FIGURES = {
    "speedup_by_k": Figure(
        "servestudy.plotting.tiers_speedup",
        "E2E speed-up over INFaaS + vLLM by number of tiers, with intervals",
        {f"{model}_tier_gains": (*_GAIN, "low", "high") for model in ("published", "serving")},
    ),
    "gain_of_tiers": Figure(
        "servestudy.plotting.tiers_gain",
        "K tiers against the same requests treated as one tier, with intervals",
        {f"{model}_tier_gains": (*_GAIN, "low", "high") for model in ("published", "serving")},
    ),
    "ablation": Figure(
        "servestudy.plotting.tiers_ablation",
        "what is left of the speed-up when one rule of the published variant is switched",
        {"published_tier_gains": (*_GAIN, "low", "high")},
    ),
    "ttft_against_tbt": Figure(
        "servestudy.plotting.tiers_trade",
        "time to first token bought with time between tokens",
        {f"{model}_tier_gains": (*_GAIN, "low", "high") for model in ("published", "serving")},
    ),
    "per_tier": Figure(
        "servestudy.plotting.tiers_each",
        "time to first token and SLO attainment of each tier",
        {"serving_tier_metrics": (*_CELL, "ttft_p99_s", "slo_attainment", "longest_wait_s")},
    ),
    "censoring": Figure(
        "servestudy.plotting.tiers_censoring",
        "what the 60 s limit hides: requests completed, and P99 with and without it",
        {"published_tier_metrics": (*_CELL, "of_tier", "completed", "e2e_p99_s")},
    ),
    "tiers_by_k": Figure(
        "servestudy.plotting.tiers_by_k",
        "latency and SLO attainment of the first and the last tier by number of tiers",
        {"serving_tier_metrics": (*_CELL, "ttft_p99_s", "tbt_p99_s", "slo_attainment")},
    ),
    "load_dependence": Figure(
        "servestudy.plotting.tiers_load",
        "gain over the baseline and over one tier by load, with intervals",
        {"serving_tier_gains": (*_GAIN, "low", "high")},
    ),
    "cost": Figure(
        "servestudy.plotting.tiers_cost",
        "the study's cost per latency beside busy and paid GPU time",
        {
            **{f"{model}_tier_gains": _GAIN for model in ("published", "serving")},
            **{f"{model}_tier_metrics": (*_CELL, "gpu_busy_s", "usd") for model in ("published", "serving")},
        },
    ),
    "latency_cdfs": Figure(
        "servestudy.plotting.tiers_latencies",
        "distribution of the latencies of every system",
        {"serving_tier_requests": ("system", "tiers", "mix", "load", "ttft_s", "tbt_s", "e2e_s")},
    ),
    "timeline": Figure(
        "servestudy.plotting.tiers_timeline",
        "one run: the batches of each replica, moves and preemptions",
        {
            "serving_tier_timeline": (
                *("system", "request_id", "tier", "replica", "state", "preemptions", "start_s", "end_s"),
            )
        },
    ),
}
ALL_FIGURES = FIGURES | AUDIT_FIGURES | TIER_FIGURES


def draw_figure(name: str, files: dict[str, Path], title: str, model: str, out: list[Path]) -> None:
    """Read the tables, draw the figure, save it to each path of `out` (svg, pdf, png).

    Raises UserError as `read_named_tables` does.
    """
    from servestudy.named_tables import read_named_tables
    from servestudy.plotting.style import Context, save

    figure = ALL_FIGURES[name]
    tables = read_named_tables(f"figure {name}", files, figure.reads)
    save(import_module(figure.module).draw(tables, Context(title, model)), out)

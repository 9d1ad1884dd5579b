"""Small made tables with every column that the paper reads, the files of a run made of them, and the commands."""

import copy
import csv
import json
from pathlib import Path

from servestudy.cli import main
from servestudy.items import ITEMS
from servestudy.paper.values import READS
from servestudy.workload import REGIONS

Rows = dict[str, list[dict[str, object]]]
HEAD = {"trace_set": "made traces", "model": "published"}
SOURCES = ("azure_like", "burstgpt_like")


def made_tables() -> Rows:
    """By item: one value of each kind. Two sources, two schedulers, all loads, ten supported reversals of one pair."""
    claim = {"statement": "A statement.", "evidence": "", "note": "", "serving": "not run"}
    holds = {"direction_holds": "yes", "serving_direction_holds": "no"}
    tables: Rows = {item: [] for item in READS}
    tables["portability/claims"] = [
        {
            "claim": "portability.mean_tau",
            "reported": "mean = 0.7329397321",
            "reproduced": "mean = 0.6034615329",
            "verdict": "needs the paper's traces",
            **holds,
        },
        {
            "claim": "portability.made_count",
            "reported": "of = 990; count = 5",
            "reproduced": "undefined",
            "verdict": "not reproduced",
            **holds,
        },
    ]
    tables["tiers/claims_of_tiers"] = [
        {
            "claim": "tiers.best_k",
            "reported": "uniform = 4; gaussian_v2 = 4; enterprise_v2 = 4",
            "reproduced": "uniform = 1; gaussian_v2 = 1; enterprise_v2 = 1",
            "verdict": "not reproduced",
            **holds,
        },
        {
            "claim": "tiers.e2e_p99_speedup",
            "reported": "min = 1.32; max = 3.13",
            "reproduced": "min = 1.79; max = 3.27",
            "verdict": "not reproduced",
            **holds,
        },
    ]
    for item in ("portability/claims", "tiers/claims_of_tiers"):
        tables[item] = [claim | row for row in tables[item]]
    tables["portability/sources"] = [
        {
            "source": source,
            "published_counterpart": "none",
            "windows": 40,
            "mean_arrival_rate_rps": 2.0,
            "mean_burstiness_b": -0.25,
            "mean_prompt_tokens": 1594.1,
            "mean_output_tokens": 113.8,
        }
        for source in SOURCES
    ]
    tables["portability/schedulers"] = [
        {"scheduler": name, "rule": "a rule", "fidelity": "made", "primary": "yes", "engine": "vLLM", "version": "1"}
        for name in ("slai_faithful", "vllm_faithful")
    ]
    tables["portability/metrics"] = [
        {"metric": "arrival_normalized_weighted_goodput", "values_defined": 9000, "values_undefined": 360}
    ]
    tables["portability/tau_by_region"] = [
        {"statistic": name, **{region: value for region in REGIONS}, "HIGH_PRESSURE": value + 0.1}
        for name, value in (("mean_tau_b", 0.5), ("min_tau_b", -0.2), ("max_tau_b", 0.8))
    ]
    tables["portability/rankings"] = [
        {"source": source, "region": region, "rank": rank, "scheduler": name}
        for source in SOURCES
        for region in REGIONS
        for name, rank in (("slai_faithful", 1), ("vllm_faithful", 1 if region == "LOW" else 2))
    ]
    tables["portability/supported_reversals"] = [
        {"rule": rule, "scheduler_a": a, "scheduler_b": b, "supported_after_fdr": True}
        for rule in ("published", "oriented")
        for a, b in [("slai_faithful", "vllm_faithful")] * 8 + [("edf", "slai_faithful")] * 2
    ]
    tables["portability/robustness"] = [
        {
            "family": "LEAVE_ONE_SOURCE_OUT",
            "variant": "azure_like",
            "metric": "arrival_normalized_weighted_goodput",
            "mean_tau_b": "undefined",
        }
    ]
    _audit(tables)
    _tiers(tables)
    _spotcheck(tables)
    return tables


def _audit(tables: Rows) -> None:
    def arm(defect, name, vanished, tau):
        counts = {"supported_reversals": 10 - vanished, "kept": 10 - vanished, "vanished": vanished, "new": 0}
        return {"defect": defect, "arm": name, "rule": "a rule", "mean_tau_b": tau, **counts} | {
            "tau_b_undefined": 0,
            "places_moved": 3,
        }

    run, cap, load, other = "none: the run itself", "head_of_line_2560", "load_divides_slack", "drain_cutoff"
    tables["audit/arms"] = [
        arm(run, "published", 0, 0.61),
        arm(cap, "no_cap", 6, 0.70),
        arm(cap, "cap_131072", 7, 0.72),
        arm(load, "gaps_only", 10, 1.0) | {"tau_b_undefined": 2},
        arm(other, "steps_5000", 0, 0.61),
    ]
    signs = {run: (1, -1), cap: (-1, -1), load: (1, 0), other: (1, -1)}
    tables["audit/arm_slai_less_vllm"] = [
        {
            "switch": row["defect"],
            "arm": row["arm"],
            "source": source,
            "region": "HIGH_PRESSURE",
            "difference": 0.3 * sign,
            "sign": sign,
        }
        for row in tables["audit/arms"]
        for source, sign in zip(SOURCES, signs[row["defect"]], strict=True)
    ]
    tables["audit/arm_rankings"] = [
        {"switch": row["defect"], "arm": row["arm"], "anwg": anwg}
        for row in tables["audit/arms"]
        for anwg in (0.7, 1.0)
    ]

    def models(quantity, published, serving):
        return {"quantity": quantity, "published": published, "serving": serving}

    pair = "slai_faithful and vllm_faithful"
    ahead = "load regions in which slai_faithful is ahead of vllm_faithful on a source and behind it on another"
    differ = "schedulers that serve some request differently, mean over windows and load regions"
    tables["audit/models"] = [
        models(differ, 6.8, 8.7),
        models("tau-b between the rankings of the two models, azure_like", 0.11, 0.11),
        models("mean tau-b between two sources", 0.6, 0.56),
        models("smallest tau-b between two sources", 0.2, "undefined"),
        models("largest tau-b between two sources", 0.96, 0.96),
        models("comparisons of two sources with a tau-b whose interval is above 0", 18, 18),
        models("supported reversals", 44, 12),
        models(f"supported reversals of {pair}", 10, 0),
        models("supported reversals of edf and slai_faithful", 0, 4),
        models(ahead, 5, 0),
        models("median tau-b between two metrics", 0.48, 0.0),
        models("comparisons of two metrics with a negative tau-b", 170, 404),
    ]


def _tiers(tables: Rows) -> None:
    burst = {
        "variant_of_the_study": "published",
        "preset": "burst",
        "load": "burst",
        "tiers": 4,
        "reference": "baseline",
    }
    factors = {
        "none": 3.08,
        "batch_cap=true": 1.87,
        "decodes_hold_kv=true": 0.99,
        "batch_cap=true,decodes_hold_kv=true": 0.98,
        "total_blocks=7424": 1.47,
        "time_limit_s=inf": 4.5,
        "migration=off": 3.0,
        "headroom=zero": 3.04,
        "dispatch=round_robin": 3.28,
    }
    known = {"low": "undefined", "high": "undefined"}
    tables["tiers/ablations"] = [
        {**burst, "switched": name, "metric": metric, "gain": gain, **known}
        for name, gain in factors.items()
        for metric in ("e2e_p99", "ttft_mean")
    ] + [
        {**burst, "variant_of_the_study": "serving", "preset": "serving", "switched": "dispatch=least_outstanding"}
        | {"reference": reference, "metric": "e2e_p99", "gain": 1.1, "low": 1.05, "high": 1.15}
        for reference in ("baseline", "one_tier")
    ]
    gain = {"system": "ours", "mix": "uniform", "requests": 10000, "kv_blocks": 128, "seeds": 3, "metric": "e2e_p99"}
    paired = {**gain, "variant_of_the_study": "published", "preset": "burst", "load": "burst", "streams": "paired"}
    drawn = paired | {"streams": "as the variant has them", "reference": "baseline", "tiers": 4, **known}
    serving = {**gain, "variant_of_the_study": "serving", "preset": "serving", "kv_blocks": 7424, "streams": "own"}
    tables["tiers/gains"] = [
        paired | {"reference": "one_tier", "tiers": 1, "gain": 1.0, "low": 1.0, "high": 1.0},
        paired | {"reference": "one_tier", "tiers": 4, "gain": 0.98, "low": 0.9, "high": 1.07},
        drawn | {"metric": "ttft_mean", "gain": 8.27},
        drawn | {"metric": "tbt_mean", "gain": 0.066},
        serving | {"reference": "one_tier", "tiers": 4, "load": "burst", "gain": 1.07, "low": 1.02, "high": 1.13},
        *(
            serving | {"reference": "baseline", "tiers": 4, "system": system, "load": load} | values
            for system in ("ours", "round_robin_sarathi")
            for load, values in (
                ("0.9", {"gain": 1.53, "low": 1.41, "high": 1.66}),
                ("burst", {"gain": 0.57, "low": 0.39, "high": 0.81}),
            )
        ),
    ]
    tables["tiers/reported"] = [
        {"system": system, "metric": metric, "tiers": 1, "verdict": verdict}
        for system, metric, verdict in (
            ("round_robin_vllm", "e2e_p50_s", "reproduced"),
            ("round_robin_vllm", "e2e_p99_s", "reproduced"),
            ("ours", "ttft_p99_s", "not reproduced"),
        )
    ]
    tables["tiers/hypotheses"] = [
        {"hypothesis": "H10", "statement": "a statement", "evidence": "3.08", "answer": "supported"},
        {"hypothesis": "H11", "statement": "another", "evidence": "not run", "answer": "not decided"},
    ]


def _spotcheck(tables: Rows) -> None:
    measured = {"measured": "made measurement"}
    engine = {"engine_effect": 0.1, "engine_low": "undefined", "engine_high": "undefined", "windows": "bracketed"}
    tables["spotcheck/agreement"] = [
        measured
        | engine
        | {"source": source, "simulator": simulator, "engine_winner": winner, "agreement": agreement}
        | {"simulated_effect": 0.37, "simulated_low": 0.33, "simulated_high": 0.41}
        for source in SOURCES
        for simulator, winner, agreement in (
            ("published", "undecided", "engine undecided"),
            ("study", "fcfs", "disagrees"),
        )
    ]
    tables["spotcheck/windows"] = [measured | {"bracketed": bracketed} for bracketed in (True, False, False)]
    tables["spotcheck/simulator_summary"] = [
        measured | {"variant": "main", "metric": metric, "median_absolute_error": 0.17, "same_order": 3, "n_pairs": 4}
        for metric in ("ttft_mean_s", "latency_mean_s", "throughput_rps")
    ]
    tables["spotcheck/engine_cells"] = [measured | {"anwg": 0.5}]


def values_of(
    folder: Path, tables: Rows, date: str | None = "2026-11-30", models: tuple[str, ...] = ("published", "serving")
) -> dict:
    """What `servestudy paper-values` makes of the tables, which lie below a folder afterwards."""
    paths = []
    for item, rows in tables.items():
        path = folder / f"{item}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            lines = [HEAD | row for row in rows]
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)
        paths.append(f"{item}={path}")
    (folder / "provenance.json").write_text(json.dumps({"measured_on": date} if date else {}))
    arguments = ["--title", "made traces (synthetic)", "--models", *models, "--run", "made"]
    files = ["--provenance", str(folder / "provenance.json"), "--out", str(folder / "values.json")]
    assert main(["paper-values", "--tables", *paths, *arguments, "--serving", "config/serving.yaml", *files]) == 0
    return json.loads((folder / "values.json").read_text(encoding="utf-8"))


def changed(tables: Rows, item: str, which: dict[str, object], **values: object) -> Rows:
    """The tables with other values in the rows of an item that hold `which`."""
    copied = copy.deepcopy(tables)
    rows = [row for row in copied[item] if all(row[name] == value for name, value in which.items())]
    assert rows, f"{item} has no row with {which}"
    for row in rows:
        row.update(values)
    return copied


def write_traceability(path: Path, but: tuple[str, ...] = ()) -> None:
    """A row for each item but those named."""
    lines = ["kind,item,file,rule,command,claims,notebook,paper,inputs,time_s"]
    lines += [
        f"{kind},{item},f,a_rule,snakemake f,portability.made,notebooks/01.ipynb,yes,,"
        for kind, item in ITEMS
        if item not in but
    ]
    path.write_text("\n".join(lines) + "\n")

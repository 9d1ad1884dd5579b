"""Speed-ups of every cell against the study's baseline, and of ours against ours with one tier."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from servestudy.errors import UserError
from servestudy.tables import column, read_table, write_frame
from servestudy.tiers.metrics import ALL_TIERS, KEYS, METRIC_SCHEMA
from servestudy.tiers.settings import OURS_ONLY, PUBLISHED
from servestudy.tiers.systems import BASELINE

CELL = ["preset", "load", "kv_blocks", "tiers", "mix", "requests", "seed"]
COMPARED = {
    "e2e_p99": "e2e_p99_s",
    "e2e_mean": "e2e_mean_s",
    "ttft_mean": "ttft_mean_s",
    "ttft_p99": "ttft_p99_s",
    "tbt_mean": "tbt_mean_s",
    "tbt_published_mean": "tbt_published_mean_s",
    "tbt_published_p99": "tbt_published_p99_s",
}
REFERENCES = {
    "baseline": "INFaaS + vLLM in the same cell: the study's own comparison",
    "one_tier": "the same system on the same requests, all of them treated as one tier (paired)",
    "k1": "the same system at K = 1 (with the study's shared random stream its arrivals differ)",
}
SPEEDUP_SCHEMA = pa.schema(
    [
        *KEYS,
        column("reference", pa.string(), "; ".join(f"{name}: {meaning}" for name, meaning in REFERENCES.items())),
        *(
            column(f"{name}_speedup", pa.float64(), f"{value} of the reference over that of the system, all tiers")
            for name, value in COMPARED.items()
        ),
        column(
            "cost_per_latency_gain", pa.float64(), "the study's improvement in cost per latency: 1 - 1 / S of e2e_p99"
        ),
        column("completed", pa.int64(), "requests that the system completed"),
        column("completed_by_reference", pa.int64(), "requests that the reference completed"),
        column("slo_gain", pa.float64(), "slo_attainment of the system less that of the reference"),
        column("gpu_busy_ratio", pa.float64(), "busy GPU seconds of the system over those of the reference"),
    ]
)


def speedups(metrics: pd.DataFrame) -> pd.DataFrame:
    """Rows of SPEEDUP_SCHEMA for every cell that has a reference among `metrics` (rows of METRIC_SCHEMA).

    Raises UserError if a cell stands twice or nothing can be compared.
    """
    overall = metrics[metrics["tier"] == ALL_TIERS].drop(columns="tier")
    keys = ["system", "variant", *CELL]
    twice = overall[overall.duplicated(keys)]
    if len(twice):
        raise UserError(f"the cell {twice[keys].iloc[0].to_dict()} stands twice among the tables")
    ours = overall[overall["system"].isin(["ours", "ours_one_tier"])].copy()
    others = overall[~overall["system"].isin(["ours", "ours_one_tier", BASELINE])].copy()
    ours["reference_variant"] = ours["variant"].map(_baselines_variant)
    others["reference_variant"] = others["variant"]
    baseline = overall[overall["system"] == BASELINE]
    one_tier = overall[overall["system"] == "ours_one_tier"]
    k1 = overall[(overall["system"] == "ours") & (overall["tiers"] == 1)]
    tiered = ours[ours["system"] == "ours"].assign(reference_variant=lambda rows: rows["variant"])
    found = [
        _against(pd.concat([ours, others]), baseline, CELL, "baseline"),
        _against(tiered, one_tier, CELL, "one_tier"),
        _against(tiered, k1, [key for key in CELL if key != "tiers"], "k1"),
    ]
    table = pd.concat(found, ignore_index=True)
    if table.empty:
        raise UserError(f"no cell has a reference: add the metrics of {BASELINE}, ours_one_tier or ours at one tier")
    return table.sort_values([field.name for field in KEYS] + ["reference"], ignore_index=True)[SPEEDUP_SCHEMA.names]


def write_analysis(files: Iterable[Path | str], metrics: Path, out: Path, gains_out: Path) -> None:
    """All cells in one table, `speedups` of them, and their gains over seeds.

    Raises UserError also for files that are no tables of cells.
    """
    from servestudy.tiers.gains import GAIN_SCHEMA, gains

    cells = pd.concat([read_table(path, METRIC_SCHEMA).to_pandas() for path in files], ignore_index=True)
    cells = cells.drop_duplicates(ignore_index=True)  # a baseline that does not read the switches of two jobs
    table = speedups(cells)
    write_frame(cells, METRIC_SCHEMA, metrics)
    write_frame(table, SPEEDUP_SCHEMA, out)
    write_frame(gains(table), GAIN_SCHEMA, gains_out)


def _against(system: pd.DataFrame, reference: pd.DataFrame, cell: list[str], name: str) -> pd.DataFrame:
    values = ["completed", "gpu_busy_s", "slo_attainment", *COMPARED.values()]
    right = reference[["variant", *cell, *values]].rename(columns={"variant": "reference_variant"})
    both = system.merge(right, on=["reference_variant", *cell], suffixes=("", "_ref"))
    both["reference"] = name
    for short, value in COMPARED.items():
        both[f"{short}_speedup"] = both[f"{value}_ref"] / both[value]
    both["cost_per_latency_gain"] = 1 - 1 / both["e2e_p99_speedup"]
    both["slo_gain"] = both["slo_attainment"] - both["slo_attainment_ref"]
    both["completed_by_reference"] = both["completed_ref"]
    both["gpu_busy_ratio"] = both["gpu_busy_s"] / both["gpu_busy_s_ref"]
    return both


def _baselines_variant(variant: str) -> str:
    """The variant of the baseline that goes with one of ours: without the settings that only ours reads."""
    read = [setting for setting in variant.split(",") if setting.partition("=")[0] not in OURS_ONLY]
    return ",".join(read) or PUBLISHED

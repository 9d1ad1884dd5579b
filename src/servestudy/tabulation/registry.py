"""The tables by name. Each is made of analysis tables and of what is registered about sources, schedulers, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

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
                "evidence",
                "note",
            )
        },
    ),
}


def write_csv_table(name: str, files: dict[str, Path], title: str, model: str, out: Path | str) -> pd.DataFrame:
    """Make a table and write it as CSV; its first columns name the trace set and the engine model.

    Undefined values are written as `undefined`; a table without any row says `none`. Raises UserError as
    `read_named_tables` does.
    """
    from servestudy.files import atomic_path
    from servestudy.named_tables import read_named_tables

    table = TABLES[name]
    rows = import_module(table.module).tabulate(read_named_tables(f"table {name}", files, table.reads))
    if rows.empty:
        rows = rows.reindex([0]).astype(object).fillna("none")
    rows.insert(0, "trace_set", title)
    rows.insert(1, "model", model)
    with atomic_path(out) as part:
        rows.to_csv(part, index=False, na_rep="undefined", lineterminator="\n")
    return rows

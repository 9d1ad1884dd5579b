"""What a release holds: which of its tables a file of a run goes into."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servestudy.errors import UserError
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES


@dataclass(frozen=True)
class Released:
    """A table of a release, or several that differ in {item}.

    `files`: where its parts lie below the run's folder. A {word} that is neither {item} nor a column of the file
    becomes a column. `holds_requests`: its rows are requests of a trace, which may not be passed on for every source.
    """

    name: str
    files: str
    text: str
    holds_requests: bool = False


MEASURED = "measurements"
"""Stands for the folder of the spot-check's measurements, which may lie outside the run's."""

RELEASED = (
    Released("windows", "windows/{source}.parquet", "the requests of the frozen windows", holds_requests=True),
    Released(
        "windows_longer",
        "windows/longer/{source}.parquet",
        "the same windows with the requests that follow, for the comparison of window sizes",
        holds_requests=True,
    ),
    Released("window_index", "windows/index.csv", "one row a window: where it was cut, its descriptors, its hash"),
    Released("calibration", "calibration/{model}/{source}.parquet", "reference load of each window"),
    Released(
        "cells",
        "cells/{model}/{source}/{scheduler}.parquet",
        "the portability study: metrics and telemetry of every cell, in both engine models",
    ),
    Released("cells_slo", "slo/{model}/{slo_multiplier}/{source}.parquet", "its cells again under other deadlines"),
    Released(
        "cells_window_size",
        "window_sizes/{model}/{window_requests}/{source}.parquet",
        "its cells again with other numbers of requests per window",
    ),
    Released(
        "audit_cells",
        "audit/{model}/{switch}/{source}.parquet",
        "the audit: cells of the published model with one defect corrected at a time",
    ),
    Released("statistics_{item}", "statistics/{item}.parquet", "analysis of the windows"),
    Released("statistics_{item}", "statistics/{model}/{item}.parquet", "analysis of the cells"),
    Released("tiers_{item}", "tiers/{model}/{item}.parquet", "the tiers study"),
    Released("spotcheck_{item}", "spotcheck/{item}.parquet", "the spot-check against the simulators"),
    Released(
        "spotcheck_measured_requests",
        f"{MEASURED}/requests.parquet",
        "the spot-check on a real engine: what became of each request",
        holds_requests=True,
    ),
    Released("spotcheck_measured_{item}", f"{MEASURED}/{{item}}.parquet", "the spot-check on a real engine, measured"),
)

ADDED = {
    "model": "engine model",
    "slo_multiplier": "service times between arrival and deadline",
    "window_requests": "requests per window",
}
"""Meaning of columns that only the paths of the parts tell."""

ABOUT = {
    **{f"statistics_{name}": item.text for name, item in (ANALYSES | VARIANT_ANALYSES | WORKLOAD_ANALYSES).items()},
    "statistics_audit_rankings": "ANWG, place and completion of every scheduler by arm of the audit",
    "statistics_audit_agreement": "tau-b of each pair of sources by arm of the audit",
    "statistics_audit_reversals": "supported reversals by arm of the audit",
    "statistics_audit_difference": "ANWG of slai_faithful less vllm_faithful by arm of the audit",
    "tiers_metrics": "latencies, fairness and cost of every cell, in total and by tier",
    "tiers_speedups": "each cell against its references",
    "tiers_gains": "speed-ups over seeds, with intervals",
    "tiers_requests": "latencies of each request, every system",
    "tiers_timeline": "what each request of one short run does when",
    "spotcheck_effects": "SLAI less FCFS on the engine, with intervals",
    "spotcheck_agreement": "who wins on the engine and in the simulators",
    "spotcheck_engine_cells": "metrics of every replay",
    "spotcheck_simulator_errors": "the simulator's values against the engine's, replay by replay",
    "spotcheck_simulator_summary": "these errors in total",
    "spotcheck_step_times": "step times by number of tokens, and the fit that the simulator uses",
    "spotcheck_windows": "rates that the engine sustains, and targets, by window",
    "spotcheck_measured_calibration": "how the rates were found",
    "spotcheck_measured_cells": "every replay",
    "spotcheck_measured_steps": "every step of the engine",
}
"""What the tables are about whose names hold an {item}."""


@dataclass(frozen=True)
class Place:
    """Where a file of a run goes: the table, what the table is about, and the words of the file's path."""

    table: str
    text: str
    holds_requests: bool
    words: dict[str, str]


def place_of(path: Path) -> Place:
    """`path`: below the run's folder, or below MEASURED. Raises UserError for a file that no table takes."""
    for released in RELEASED:
        match = _pattern(released.files).fullmatch(path.as_posix())
        if not match:
            continue
        words = match.groupdict()
        table = released.name.format(**words)
        if "item" not in words:
            return Place(table, released.text, released.holds_requests, words)
        if table in ABOUT:
            del words["item"]
            return Place(table, f"{released.text}: {ABOUT[table]}", released.holds_requests, words)
    raise UserError(f"{path}: no table of a release takes it; src/servestudy/release/contents.py lists what they take")


@cache
def _pattern(files: str) -> re.Pattern:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(files)))

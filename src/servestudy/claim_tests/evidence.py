"""What a claim's test gets and what it gives back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES
from servestudy.tables import read_table

FIFO_CELLS = "cells of fifo"
TIER_TABLES = {
    "tier_metrics": ("servestudy.tiers.metrics", "METRIC_SCHEMA"),
    "tier_speedups": ("servestudy.tiers.speedups", "SPEEDUP_SCHEMA"),
    "tier_gains": ("servestudy.tiers.gains", "GAIN_SCHEMA"),
}
"""Tables of the multi-tier study: where each one's schema stands."""
SPOTCHECK_TABLES = {
    "spotcheck_effects": ("servestudy.spotcheck.effects", "EFFECTS"),
    "spotcheck_agreement": ("servestudy.spotcheck.effects", "AGREEMENT"),
    "spotcheck_windows": ("servestudy.spotcheck.analyse", "WINDOWS"),
}
"""Tables of the measurement on a real engine, likewise."""

Value = float | int | str


class NotEvaluatedError(Exception):
    """The claim cannot be evaluated on this run at all; the message says what is missing."""


class UndefinedError(Exception):
    """There is nothing in this run that the claim is about; the message says what."""


@dataclass(frozen=True)
class Finding:
    """`values` by name, as in the claim's `reported`; `holds`: whether the claim's direction does, None: undefined."""

    values: Mapping[str, Value]
    holds: bool | None
    note: str = ""

    def __post_init__(self) -> None:
        if self.holds is not None:  # NumPy has booleans of its own, for which `is False` is false
            object.__setattr__(self, "holds", bool(self.holds))


class Evidence:
    """The tables that one claim names, of one engine model; a test can read no others."""

    def __init__(self, files: Mapping[str, list[Path]], model: str = "published"):
        self.files = files
        self.model = model

    def table(self, name: str) -> pd.DataFrame:
        """All rows of a table; several files (one a source) in one. Raises UserError for a file of another kind."""
        placed = TIER_TABLES | SPOTCHECK_TABLES
        if name in placed:
            module, schema_name = placed[name]
            schema = getattr(import_module(module), schema_name)
            return self._read(name, schema)
        analysis = (ANALYSES | VARIANT_ANALYSES | WORKLOAD_ANALYSES).get(name)
        schema = import_module(analysis.module).SCHEMA if analysis else CELL_SCHEMA
        return self._read(name, schema)

    def _read(self, name: str, schema: pa.Schema) -> pd.DataFrame:
        return pd.concat([read_table(path, schema).to_pandas() for path in self.files[name]], ignore_index=True)

    def primary(self, name: str) -> pd.DataFrame:
        """The rows of a table that are about the primary metric."""
        table = self.table(name)
        return table[table["metric"] == PRIMARY_METRIC]


def stand_in(role: str, sources: Iterable[str]) -> str:
    """The source whose id begins with the word `role` (azure, bailian, burstgpt); UndefinedError unless one does."""
    found = sorted({source for source in sources if source.split("_")[0] == role})
    if len(found) != 1:
        number = "no source stands" if not found else f"{len(found)} sources stand"
        raise UndefinedError(f"{number} for {role} in this trace set")
    return found[0]


def extremes(numbers: pd.Series) -> dict[str, Value]:
    """`min` and `max` of the defined numbers; UndefinedError if there is none."""
    if not numbers.count():
        raise UndefinedError("no value is defined")
    return {"min": float(numbers.min()), "max": float(numbers.max())}


def count_undefined(numbers: pd.Series, what: str) -> str:
    """A note on undefined numbers, empty if there is none."""
    n_undefined = int(numbers.isna().sum())
    return f"{n_undefined} of {len(numbers)} {what} undefined" if n_undefined else ""

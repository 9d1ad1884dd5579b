"""Made tables that claims are tested on."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from servestudy.claim_tests.evidence import Evidence, Finding
from servestudy.claim_tests.registry import TESTS
from servestudy.claims import (
    load_claims,
)
from servestudy.metrics import PRIMARY_METRIC
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES
from servestudy.statistics.reversal_rules import SUPPORTED
from servestudy.tables import write_frame
from servestudy.workload import REGIONS

PAIRS = [("azure_like", "bailian_like"), ("azure_like", "burstgpt_like"), ("bailian_like", "burstgpt_like")]
BLANKS = {pa.string(): "", pa.bool_(): False, pa.int32(): 0, pa.int64(): 0, pa.float64(): np.nan}


def make(folder: Path, name: str, rows: list[dict]) -> list[Path]:
    """A table of an analysis, with columns that a test does not care about left blank."""
    analysis = (ANALYSES | VARIANT_ANALYSES | WORKLOAD_ANALYSES).get(name)
    schema = import_module(analysis.module).SCHEMA if analysis else CELL_SCHEMA
    unknown = {column for row in rows for column in row}.difference(schema.names)
    assert not unknown, unknown
    frame = pd.DataFrame(rows, columns=schema.names)
    for field in schema:
        if frame[field.name].isna().all():
            frame[field.name] = pd.Series([BLANKS[field.type]] * len(frame), dtype=field.type.to_pandas_dtype())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    write_frame(frame, schema, path)
    return [path]


def agreement_rows(taus: dict[tuple[str, str], float]) -> list[dict]:
    """The same taus at each region."""
    return [
        {"metric": PRIMARY_METRIC, "region": region, "source_x": x, "source_y": y, "tau_b": tau}
        for region in REGIONS
        for (x, y), tau in taus.items()
    ]


def reversal_rows(classes: list[tuple[str, str, str, str]]) -> list[dict]:
    """Of (class, region, scheduler a, scheduler b), between azure_like and burstgpt_like."""
    return [
        {
            "rule": "published",
            "metric": PRIMARY_METRIC,
            "region": region,
            "source_x": "azure_like",
            "source_y": "burstgpt_like",
            "scheduler_a": a,
            "scheduler_b": b,
            "reversal_class": label,
            "supported_after_fdr": label == SUPPORTED,
        }
        for label, region, a, b in classes
    ]


def run_test(name: str, files: dict[str, list[Path]], **parameters) -> Finding:
    return TESTS[name](Evidence(files), **parameters)


@pytest.fixture(scope="module")
def study(project) -> dict:
    return load_claims(project / "claims/portability.yaml")


def a_claim(**changes) -> dict:
    claim = {
        "statement": "The mean is 0.5.",
        "source": "a paper",
        "reported": {"mean": 0.5},
        "test": {"function": "mean_tau", "parameters": {"at_least": 0.4}},
        "tolerance": 0.01,
        "direction": "the mean is at least 0.4",
        "evidence": ["agreement"],
        "traces": "paper",
    }
    return claim | changes


def run_folder(folder: Path, sources: list[str], windows: int) -> Path:
    """A run with the tables `ranking` and `agreement` alone."""
    ranking = [
        {"source": s, "region": "KNEE", "metric": PRIMARY_METRIC, "scheduler": "fifo", "windows_defined": windows}
        for s in sources
    ]
    pairs = [(x, y) for number, x in enumerate(sources) for y in sources[number + 1 :]]
    make(folder / "statistics/published", "ranking", ranking)
    make(folder / "statistics/published", "agreement", agreement_rows(dict.fromkeys(pairs, 0.7)))
    return folder

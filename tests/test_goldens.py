"""The published values of six windows, through the command line's panel, bit for bit."""

import csv
import math

import pytest

from servestudy.calibration import calibrate
from servestudy.panel import LONG_COLUMNS, panel_rows, read_window_csv, write_long_csv
from servestudy.schedulers.registry import schedulers_of
from servestudy.windows.sampling import extension_starts, stage0_starts
from servestudy.workload import REGIONS, synthesize


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def differing(pairs):
    """(key, expected, found) of the pairs that are not equal; NaN equals NaN."""
    return [
        (key, expected, found)
        for key, expected, found in pairs
        if not (expected == found or (math.isnan(expected) and math.isnan(found)))
    ]


@pytest.fixture(scope="module")
def goldens(shared):
    return shared / "goldens"


@pytest.fixture(scope="module")
def index(goldens):
    return {row["window_id"]: row for row in rows_of(goldens / "windows.csv")}


@pytest.fixture(scope="module")
def panels(goldens, index, tmp_path_factory):
    """(window, region, scheduler, metric) -> value, as `servestudy panel` writes it, calibration included."""
    values = {}
    for window_id, row in index.items():
        window = read_window_csv(goldens / f"windows/{window_id}.csv", int(row["window_number"]))
        out = tmp_path_factory.mktemp("panels") / f"{window_id}.csv"
        write_long_csv(panel_rows(window, schedulers_of("published")), out)
        for line in rows_of(out):
            values[tuple(line[name] for name in LONG_COLUMNS[:-1])] = float(line["value"])
    return values


def test_cells(goldens, panels, state_fact):
    expected = rows_of(goldens / "cells.csv")
    keys = [(row["window_id"], row["region"], row["policy"], row["metric"]) for row in expected]
    wrong = differing((key, float(row["value"]), panels[key]) for key, row in zip(keys, expected, strict=True))
    assert len(expected) == 433
    state_fact(f"goldens, cells.csv: {len(expected) - len(wrong)} of {len(expected)} values equal")
    assert not wrong


def test_anwg(goldens, panels, state_fact):
    expected = rows_of(goldens / "anwg.csv")
    metric = "arrival_normalized_weighted_goodput"
    keys = [(row["window_id"], row["region"], row["policy"], metric) for row in expected]
    wrong = differing((key, float(row["anwg"]), panels[key]) for key, row in zip(keys, expected, strict=True))
    assert len(expected) == 132
    state_fact(f"goldens, anwg.csv: {len(expected) - len(wrong)} of {len(expected)} values equal")
    assert not wrong


def test_reference_loads(index, panels, state_fact):
    wrong = differing((w, float(row["lambda_ref"]), panels[w, "", "", "lambda_ref"]) for w, row in index.items())
    assert len(index) == 6
    state_fact(f"goldens, windows.csv: {len(index) - len(wrong)} of {len(index)} reference loads equal")
    assert not wrong


def test_fifo_violation_rates(index, panels, state_fact):
    wrong = differing(
        (
            (window_id, region),
            float(row[f"fifo_violation_{region}"]),
            panels[window_id, region, "fifo", "slo_violation_rate"],
        )
        for window_id, row in index.items()
        for region in REGIONS
    )
    total = len(index) * len(REGIONS)
    state_fact(f"goldens, windows.csv: {total - len(wrong)} of {total} violation rates equal")
    assert not wrong


def test_bisection_ends_beside_the_first_violation(goldens, index):
    window = read_window_csv(goldens / "windows/burstgpt_stage0_w00.csv", 0)
    found = calibrate(synthesize(window.time_s, window.prompt_tokens, window.output_tokens, 0))
    assert len(found.load_factors) == 32
    assert found.load_factors[:2] == [0.01, 10_000.0]
    below = max(f for f, rate in zip(found.load_factors, found.violation_rates, strict=True) if rate < 0.005)
    above = min(f for f, rate in zip(found.load_factors, found.violation_rates, strict=True) if rate >= 0.005)
    assert below < found.lambda_ref < above


def test_golden_windows_start_where_the_rules_say():
    """Needs no reference data: six of the 120 published start rows."""
    starts = {}
    for source, rows, skip, seed in (
        ("burstgpt", 3_784_213, 500_000, 20260901),
        ("azure_llm_2024", 27_303_999, 200_000, 20260902),
        ("bailian_qwen", 172_800, 50_000, 20260903),
    ):
        first = stage0_starts(rows, skip, seed)
        starts[source] = [first[0], extension_starts(rows, skip, seed, first)[0]]
    assert starts == {
        "burstgpt": [757794, 510504],
        "azure_llm_2024": [543015, 858582],
        "bailian_qwen": [52305, 52699],
    }

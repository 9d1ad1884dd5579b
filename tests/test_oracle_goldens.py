"""The oracle reproduces the published cells bit for bit; the differential tests rest on that."""

import csv
import math
from functools import cache

import pytest
from oracle import run, study


def rows_of(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def goldens(shared):
    return shared / "goldens"


@pytest.fixture(scope="module")
def windows(goldens):
    """Per window id: its row of windows.csv and its unscaled requests."""
    return {
        row["window_id"]: (
            row,
            study.synthesize(
                study.read_window(goldens / "windows" / f"{row['window_id']}.csv"), int(row["window_number"])
            ),
        )
        for row in rows_of(goldens / "windows.csv")
    }


@pytest.fixture(scope="module")
def cell(windows):
    """cell(window, region, scheduler): the metrics and telemetry of one cell, run once."""

    @cache
    def values(window_id, region, scheduler):
        row, requests = windows[window_id]
        scaled = study.rescale(requests, float(row["lambda_ref"]) * study.REGIONS[region])
        result = run(scaled, scheduler)
        assert result.refused == 0
        return study.metrics(result, scaled) | result.telemetry

    return values


def differences(expected, found):
    """Keys whose values are not equal; NaN equals NaN."""
    return [
        (key, value, found[key])
        for key, value in expected.items()
        if not (found[key] == value or (math.isnan(found[key]) and math.isnan(value)))
    ]


def check(name, expected, found):
    wrong = differences(expected, found)
    print(f"{name}: {len(expected) - len(wrong)} of {len(expected)} values equal")
    assert wrong == []


def test_cells(goldens, cell):
    rows = rows_of(goldens / "cells.csv")
    expected = {(r["window_id"], r["region"], r["policy"], r["metric"]): float(r["value"]) for r in rows}
    assert len(expected) == 433
    check("cells.csv", expected, {key: cell(*key[:3])[key[3]] for key in expected})


def test_anwg(goldens, cell):
    rows = rows_of(goldens / "anwg.csv")
    expected = {(r["window_id"], r["region"], r["policy"]): float(r["anwg"]) for r in rows}
    assert len(expected) == 132
    check("anwg.csv", expected, {key: cell(*key)["arrival_normalized_weighted_goodput"] for key in expected})


def test_fifo_violation_rates(windows, cell):
    expected = {
        (window_id, region): float(row[f"fifo_violation_{region}"])
        for window_id, (row, _) in windows.items()
        for region in study.REGIONS
    }
    assert len(expected) == 36
    check("windows.csv", expected, {key: cell(*key, "fifo")["slo_violation_rate"] for key in expected})


def test_calibration(windows):
    expected = {window_id: float(row["lambda_ref"]) for window_id, (row, _) in windows.items()}
    assert len(expected) == 6
    check("lambda_ref", expected, {key: study.calibrate(windows[key][1]) for key in expected})

"""Loads, trace replay, targets and fairness of the tiers study."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from servestudy.errors import UserError
from servestudy.tables import write_table
from servestudy.tiers.load import capacity_rps, requests_per_s
from servestudy.tiers.metrics import metric_rows
from servestudy.tiers.outcome import simulate
from servestudy.tiers.settings import PRESETS, SERVING
from servestudy.tiers.slo import jain, targets
from servestudy.tiers.study import Design
from servestudy.tiers.traces import trace_workload
from servestudy.tiers.workload import Workload, draw
from servestudy.windows.frozen import WINDOW_SCHEMA

ZIPF = PRESETS["serving"].workload


@pytest.fixture
def windows(tmp_path):
    """Two windows of three requests: gaps of 1 and 3 s, then all at once; one request without output."""
    columns = {
        "source": ["made"] * 6,
        "window_id": ["w0"] * 3 + ["w1"] * 3,
        "window_number": [0] * 3 + [1] * 3,
        "position": [0, 1, 2] * 2,
        "source_row": list(range(6)),
        "time_s": [10.0, 11.0, 14.0, 50.0, 50.0, 50.0],
        "prompt_tokens": [100, 200, 300, 400, 500, 600],
        "output_tokens": [10, 20, 0, 40, 50, 60],
    }
    write_table(pa.table(columns).cast(WINDOW_SCHEMA), WINDOW_SCHEMA, tmp_path / "made.parquet")
    return tmp_path / "made.parquet"


def test_a_trace_keeps_lengths_and_relative_gaps_and_begins_again(windows):
    workload = trace_workload(windows)
    assert workload.gaps.tolist() == [1.0, 0.5, 1.5, 1.0, 1.0, 1.0]
    requests = draw(Workload(workload.lengths, 2.0, 8, gaps=workload.gaps, source="made"), "uniform", 2, 1, "separate")
    prompts, outputs = [100, 200, 300, 400, 500, 600], [10, 20, 1, 40, 50, 60]
    start = prompts.index(requests.prompt_tokens[0])
    places = [(start + place) % 6 for place in range(8)]
    assert requests.prompt_tokens.tolist() == [prompts[place] for place in places]
    assert requests.output_tokens.tolist() == [outputs[place] for place in places]
    gaps = [workload.gaps[place] / 2.0 for place in places]
    assert np.diff(requests.arrival_s, prepend=0).tolist() == pytest.approx(gaps)
    starts = {int(draw(workload, "uniform", 2, seed, "separate").prompt_tokens[0]) for seed in range(20)}
    assert len(starts) > 3, "each seed begins elsewhere"
    with pytest.raises(UserError, match="the trace made with shared streams"):
        draw(workload, "uniform", 2, 1, "shared")


def test_cells_of_a_trace_are_named_by_its_source(windows):
    design = Design("serving", [2], ["uniform"], [12], [1], loads=["0.9"], windows=windows)
    _, cells = design.cells_of("ours")
    (rows,) = cells
    assert (rows[0]["preset"], rows[0]["load"], rows[0]["completed"]) == ("made", "0.9", 12)


def test_capacity_is_what_saturated_replicas_complete():
    one, four = (capacity_rps(ZIPF, replicas, 7424, 64) for replicas in (1, 4))
    assert four == pytest.approx(4 * one, rel=0.1)
    requests = draw(Workload(ZIPF.lengths, 2 * one, 1500), "uniform", 1, 3, "separate")
    outcome, _ = simulate("ours_one_tier", requests, 1, replace(SERVING, replicas=1))
    assert 1500 / outcome.end_s == pytest.approx(one, rel=0.1), "twice the load does not serve more"


def test_loads_are_shares_of_the_capacity_as_they_arrive():
    rate = requests_per_s("0.5", ZIPF, SERVING)
    requests = draw(Workload(ZIPF.lengths, rate, 4000), "uniform", 1, 1, "separate")
    capacity = capacity_rps(ZIPF, 4, 7424, 64)
    assert 4000 / requests.arrival_s[-1] == pytest.approx(0.5 * capacity, rel=0.03)
    assert requests_per_s("burst", ZIPF, SERVING) == ZIPF.requests_per_s
    with pytest.raises(UserError, match="load is 'high'; allowed: burst"):
        requests_per_s("high", ZIPF, SERVING)


def test_targets_go_from_the_first_to_the_last_in_equal_ratios():
    four = targets(4)
    assert four[0].tolist() == pytest.approx([1.0, 0.1])
    assert four[-1].tolist() == pytest.approx([20.0, 0.5])
    assert (four[1:] / four[:-1])[:, 0] == pytest.approx(20 ** (1 / 3))
    assert targets(1)[0].tolist() == pytest.approx([20**0.5, 0.05**0.5])


def test_jains_index():
    assert jain(np.array([1.0, 1.0, 1.0])) == pytest.approx(1)
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    assert np.isnan(jain(np.zeros(3)))


def test_attainment_counts_requests_that_did_not_complete():
    requests = draw(Workload(ZIPF.lengths, 500.0, 200), "uniform", 2, 1, "separate")
    requests.prompt_tokens[:20] = 10**6  # turned away
    outcome, _ = simulate("ours", requests, 2, SERVING)
    everyone, first, second = metric_rows(outcome, 2)
    assert everyone["completed"] == 180
    assert everyone["slo_attainment"] <= 0.9
    total = first["slo_attainment"] * first["of_tier"] + second["slo_attainment"] * second["of_tier"]
    assert everyone["slo_attainment"] * 200 == pytest.approx(total)
    assert everyone["least_attainment"] == min(first["slo_attainment"], second["slo_attainment"])

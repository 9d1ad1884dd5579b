"""Other numbers of requests per window: which windows, which requests, which calibration, which cells."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from conftest import PROJECT

from servestudy.calibration import calibrate, violation_rate
from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.schedulers.registry import make_scheduler
from servestudy.simulation import CELL_SCHEMA, simulate_window
from servestudy.tables import read_table, write_table
from servestudy.traces.registry import load_sources
from servestudy.traces.synthesize import synthesize as synthesize_trace
from servestudy.window_sizes import first_requests, simulate_sizes, start_rows, with_room
from servestudy.windows.freeze import freeze
from servestudy.windows.frozen import WINDOW_SCHEMA, FrozenWindow, read_windows
from servestudy.workload import synthesize


def window(number, n, start=0):
    rng = np.random.default_rng(number)
    times = start + np.sort(rng.uniform(0, 20, n))
    return FrozenWindow("s", f"w{number}", number, times, rng.integers(10, 400, n), rng.integers(2, 60, n))


def with_starts(*starts_and_lengths):
    windows = [window(number, length) for number, (_, length) in enumerate(starts_and_lengths)]
    starts = {w.window_id: start for w, (start, _) in zip(windows, starts_and_lengths, strict=True)}
    return windows, starts


def ids(windows):
    return [window.window_id for window in windows]


def test_a_window_without_room_is_left_out():
    windows, starts = with_starts((0, 400), (1000, 268), (500, 400))
    assert ids(with_room(windows, starts, 400)) == ["w0", "w2"]
    assert ids(with_room(windows, starts, 268)) == ["w0", "w1", "w2"]


def test_windows_that_would_overlap_are_taken_in_the_order_of_their_rows():
    windows, starts = with_starts((650, 400), (0, 400), (399, 400), (800, 400), (1050, 400))
    assert ids(with_room(windows, starts, 400)) == ["w0", "w1", "w4"]
    assert ids(with_room(windows, starts, 200)) == ["w0", "w1", "w2", "w4"]
    assert ids(with_room(*with_starts((400, 400), (0, 400)), 400)) == ["w0", "w1"], "end to end is no overlap"


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Windows of an embedded trace, and the table with the requests that follow them."""
    folder = tmp_path_factory.mktemp("sizes")
    synthesize_trace("burstgpt_like", folder / "trace")
    source = load_sources(PROJECT / "config/sources.tsv")["burstgpt_like"]
    freeze(source, folder / "trace", folder / "w.parquet", folder / "w.csv", 10, 30, 0.001, folder / "longer.parquet")
    return folder


def test_longer_windows_start_with_the_frozen_ones(embedded):
    frozen, longer = read_windows(embedded / "w.parquet"), read_windows(embedded / "longer.parquet")
    assert ids(longer) == ids(frozen)
    assert start_rows(embedded / "longer.parquet") == start_rows(embedded / "w.parquet")
    for short, long in zip(frozen, longer, strict=True):
        cut = first_requests(long, 200)
        assert all(np.array_equal(getattr(cut, name), getattr(short, name)) for name in ("time_s", "prompt_tokens"))
    rows = read_table(embedded / "longer.parquet", WINDOW_SCHEMA).to_pandas()
    assert (rows.groupby("window_id")["source_row"].diff().dropna() == 1).all()
    content = rows.drop_duplicates("source_row").set_index("source_row")["time_s"]
    assert (rows["time_s"].to_numpy() == content[rows["source_row"]].to_numpy()).all(), "overlaps hold the same rows"


def test_shares_requests_and_noise_with_the_window_of_200(embedded):
    long = read_windows(embedded / "longer.parquet")[0]
    whole, part = (
        synthesize(w.time_s, w.prompt_tokens, w.output_tokens, w.number) for w in (long, first_requests(long, 50))
    )
    assert np.array_equal(whole.predicted_output_tokens[:50], part.predicted_output_tokens)


@pytest.mark.parametrize("n", [50, 100, 200, 400])
def test_the_knee_is_the_first_late_request_at_every_number(n):
    crowd = window(3, n)
    workload = synthesize(crowd.time_s, crowd.prompt_tokens, crowd.output_tokens, crowd.number)
    found = calibrate(workload, threshold=1 / n)
    late = [round(rate * n) for rate in found.violation_rates]
    above = [factor for factor, count in zip(found.load_factors, late, strict=True) if count >= 1]
    below = [factor for factor, count in zip(found.load_factors, late, strict=True) if count == 0]
    assert max(below) < found.lambda_ref < min(factor for factor in above if factor > max(below))
    assert violation_rate(workload, max(below), PUBLISHED_MODEL) == 0
    if n <= 200:
        assert calibrate(workload) == found, "up to 200 the study's threshold is the first late request as well"


def test_cells_at_200_are_those_of_the_study(tmp_path):
    windows = [window(0, 400), window(1, 400)]
    longer = longer_table(tmp_path, windows, [0, 400])
    out = {200: tmp_path / "200.parquet", 100: tmp_path / "100.parquet"}
    simulate_sizes(longer, ["fifo", "edf"], ["KNEE", "HIGH_PRESSURE"], out)
    found = read_table(out[200], CELL_SCHEMA).to_pylist()
    expected = []
    for whole in windows:
        study = first_requests(whole, 200)
        lambda_ref = calibrate(synthesize(study.time_s, study.prompt_tokens, study.output_tokens, study.number))
        for name in ("fifo", "edf"):
            rows = simulate_window(
                study, lambda_ref.lambda_ref, name, partial(make_scheduler, name), 1, PUBLISHED_MODEL
            )
            expected += [row for row in rows if row["region"] in ("KNEE", "HIGH_PRESSURE")]
    assert repr(found) == repr([{name: row[name] for name in CELL_SCHEMA.names} for row in expected])
    assert len(read_table(out[100], CELL_SCHEMA)) == len(found)


def longer_table(folder, windows, starts):
    rows = [
        (w.source, w.window_id, w.number, i, start + i, w.time_s[i], w.prompt_tokens[i], w.output_tokens[i])
        for w, start in zip(windows, starts, strict=True)
        for i in range(len(w.time_s))
    ]
    columns = dict(zip(WINDOW_SCHEMA.names, zip(*rows, strict=True), strict=True))
    write_table(pa.table({name: list(values) for name, values in columns.items()}), WINDOW_SCHEMA, folder / "l.parquet")
    return folder / "l.parquet"


def test_smaller_windows_leave_out_those_without_room_for_the_study(tmp_path):
    longer = longer_table(tmp_path, [window(0, 400), window(1, 150)], [0, 400])
    simulate_sizes(longer, ["fifo"], ["KNEE"], {50: tmp_path / "50.parquet"})
    assert set(read_table(tmp_path / "50.parquet", CELL_SCHEMA)["window_id"].to_pylist()) == {"w0"}


def test_an_unknown_region_is_named(tmp_path, capsys):
    arguments = ["--windows", "w", "--schedulers", "fifo", "--regions", "KNEE", "KNE", "--out", f"50={tmp_path / 'o'}"]
    assert main(["simulate-window-sizes", *arguments]) == 1
    assert "region 'KNE' is unknown; known are LOW, PRE_KNEE, KNEE" in capsys.readouterr().err


def test_a_trace_without_room_says_what_to_change(tmp_path):
    longer = longer_table(tmp_path, [window(0, 399)], [0])
    with pytest.raises(UserError, match="no window has 400 requests; use a smaller number"):
        simulate_sizes(longer, ["fifo"], ["KNEE"], {50: tmp_path / "50.parquet", 400: tmp_path / "400.parquet"})
    assert not (tmp_path / "50.parquet").exists()

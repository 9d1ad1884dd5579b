"""Measuring without a real engine: what is written when, what is resumed, refused, repeated."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from made_engine import RECORD, SMALL, MadeEngine, made_episode

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.spotcheck import measure as measuring
from servestudy.spotcheck.measurements import KEY, collect, read_measurements
from servestudy.spotcheck.plan import pairs


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measure episodes with a made engine into one folder; calibration as if the engine were quick and steady."""
    monkeypatch.setattr(measuring, "LATE_S", 0.5)  # the machine that tests run on is not quiet

    def run(engine=None, episodes=None, limit_s=1e9, record=RECORD, preset=SMALL):
        engine = engine or MadeEngine()
        measuring.measure(episodes or [made_episode()], preset, engine, record, tmp_path / "out", limit_s, 1)
        return engine

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a measurement of one window that came to its end."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "LATE_S", 5.0)
        measuring.measure([made_episode()], SMALL, MadeEngine(), RECORD, folder, 1e9, 1)
    return folder


@pytest.fixture
def done(whole, tmp_path):
    """A copy of it where `measure` measures."""
    return shutil.copytree(whole, tmp_path / "out")


def test_every_cell_is_written_as_it_ends_and_a_killed_run_goes_on_where_it_was(measure, tmp_path, monkeypatch):
    written = measuring._write_json

    def killed_at_third_cell(path, content):
        written(path, content)
        if len(list((tmp_path / "out/cells").glob("*"))) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(measuring, "_write_json", killed_at_third_cell)
        with pytest.raises(KeyboardInterrupt):
            measure()
    kept = {path: path.read_bytes() for path in (tmp_path / "out/cells").glob("*.json")}
    assert len(kept) == 3
    engine = measure()
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert len(list((tmp_path / "out/cells").glob("*.json"))) == 2 * len(list(pairs([made_episode()])))
    assert engine.begun == 1 + 2 * len(list(pairs([made_episode()]))) - 3  # the warm-up; no calibration again


def test_what_is_measured_is_not_measured_again(measure, done):
    assert measure().begun == 1


def test_other_requests_under_the_same_name_are_measured(measure, done):
    other = replace(made_episode(), output_tokens=made_episode().output_tokens + 1)
    assert measure(episodes=[other]).begun > 10
    stored = {json.loads(path.read_text())["episode_sha256"] for path in done.glob("*/*.json")}
    assert stored == {other.shortened(SMALL.tokens_per_request, SMALL.requests).sha256}


def test_no_pair_begins_that_does_not_fit_into_the_time_left(measure, tmp_path, capsys):
    measure(limit_s=1e-9)
    assert not list((tmp_path / "out").glob("cells/*"))
    assert "the same command goes on from here" in capsys.readouterr().err


def test_an_engine_that_runs_out_of_memory_costs_one_cell_and_says_so_in_one_line(measure, done, tmp_path, capsys):
    (broken,) = (tmp_path / "out/cells").glob("*main.0.9.slai.0.json")
    broken.unlink()
    capsys.readouterr()
    measure(MadeEngine(fail_at=2))
    content = json.loads(broken.read_text())
    assert not content["valid"]
    assert content["why"].startswith("MemoryError: CUDA out of memory.")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "INVALID" in line]
    assert "main.0.9.slai.0: INVALID: MemoryError: CUDA out of memory." in line
    measure()
    assert json.loads(broken.read_text())["valid"]


def test_a_window_whose_calibration_fails_is_left_out_and_the_others_are_measured(measure, tmp_path, capsys):
    measure(MadeEngine(fail_at=3), [made_episode("a"), made_episode("b")])
    assert "left out, calibration failed: MemoryError" in capsys.readouterr().err
    assert {path.name.split(".")[0] for path in (tmp_path / "out/cells").glob("*")} >= {"b"}


def test_a_disturbed_cell_is_repeated(measure, done, tmp_path, monkeypatch):
    (cell,) = (tmp_path / "out/cells").glob("*main.0.9.fcfs.0.json")
    cell.unlink()
    measure(MadeEngine(slow_at=2))
    content = json.loads(cell.read_text())
    assert (content["valid"], content["attempt"]) == (True, 2)
    monkeypatch.setattr(measuring, "TRIES", 1)
    cell.unlink()
    measure(MadeEngine(slow_at=2))
    assert "disturbed: a step took 0." in json.loads(cell.read_text())["why"]
    collect(done, tmp_path / "data")
    data = read_measurements(tmp_path / "data")
    assert (~data.cells["valid"]).sum() == 1
    assert len(data.steps.groupby(list(KEY))) == data.cells["valid"].sum()


def test_measurements_of_another_engine_are_not_mixed(measure, done, tmp_path):
    other = RECORD | {"fingerprint": "0" * 16, "device": {"kind": "cuda", "name": "another"}}
    with pytest.raises(UserError, match=r"are of another device; give another --out"):
        measure(record=other)


def test_a_request_that_never_fits_is_refused_before_it_blocks_the_queue(measure):
    preset = replace(SMALL, tight_kv_tokens=160)
    with pytest.raises(UserError, match=r"azure_made_w00: a request has \d+ tokens, more than the 160 of KV"):
        measure(episodes=[replace(made_episode(), prompt_tokens=np.array([900] + [5] * 23))], preset=preset)


def test_a_missing_package_is_one_line_with_the_way_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    windows = tmp_path / "w.csv"
    windows.write_text(
        "source,window_id,window_number,arrival_s,prompt_tokens,output_tokens,slack_s\na,a_0,0,0,5,5,1\na,a_0,0,1,5,5,1\n"
    )
    options = [
        "--windows",
        str(windows),
        "--device",
        "cpu",
        "--preset",
        "tiny",
        "--traces",
        "t",
        "--out",
        str(tmp_path),
    ]
    assert main(["spotcheck-measure", *options]) == 1
    error = capsys.readouterr().err
    assert "needs the package torch: `make spotcheck` installs it" in error
    assert error.count("\n") == 1


def test_a_measurement_without_a_valid_cell_is_no_table(tmp_path):
    with pytest.raises(UserError, match="no valid cell"):
        collect(tmp_path, tmp_path / "data")


def test_a_broken_cell_file_is_named(measure, done, tmp_path):
    next((tmp_path / "out/cells").glob("*")).write_text("{")
    with pytest.raises(UserError, match=r"\.json: not a JSON file; delete it and measure again"):
        collect(tmp_path / "out", tmp_path / "data")

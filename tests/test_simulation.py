"""Shards of cells: contents, repetitions, and what happens when something goes wrong."""

import itertools
from functools import partial

import numpy as np
import pytest

from servestudy.calibration import CALIBRATION_SCHEMA, calibrate, calibrate_windows, read_lambda_ref
from servestudy.errors import UserError
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.schedulers.protocol import Action, Scheduler
from servestudy.schedulers.registry import make_scheduler, primary_schedulers, schedulers_of
from servestudy.simulation import CELL_SCHEMA, simulate_shard
from servestudy.tables import read_table
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import REGIONS, Workload, synthesize


def window(number=0, source="somewhere"):
    rng = np.random.default_rng(number)
    return FrozenWindow(
        source,
        f"{source}_stage0_w{number:02d}",
        number,
        np.sort(rng.uniform(0, 20, 60)),
        rng.integers(10, 400, 60),
        rng.integers(2, 60, 60),
    )


def shard(tmp_path, make, name="fifo", windows=None, lambda_ref=None, repetitions=2):
    windows = windows or [window(0), window(1)]
    lambda_ref = {w.window_id: 50.0 for w in windows} if lambda_ref is None else lambda_ref
    out = tmp_path / "cells.parquet"
    simulate_shard(windows, lambda_ref, name, make, repetitions, PUBLISHED_MODEL, out)
    return read_table(out, CELL_SCHEMA).to_pandas()


def test_one_row_a_window_region_and_repetition(tmp_path):
    cells = shard(tmp_path, partial(make_scheduler, "edf"), "edf")
    assert len(cells) == 2 * 6 * 2
    assert set(cells["scheduler"]) == {"edf"}
    assert cells["region"].tolist()[:4] == ["LOW", "PRE_KNEE", "KNEE", "POST_KNEE"]
    assert (cells["load_factor"] == 50.0 * cells["region"].map(REGIONS)).all()
    assert set(cells["synthesis_seed"]) == {900_000, 900_001}
    first, second = (cells[cells["repetition"] == r].drop(columns="repetition").reset_index(drop=True) for r in (0, 1))
    assert first.equals(second)
    by_cell = cells.groupby(["window_id", "region"])["outcome_sha256"].nunique()
    assert (by_cell == 1).all()  # repetitions of a cell agree
    assert cells["outcome_sha256"].nunique() > 6  # and cells differ


def test_a_scheduler_that_raises_is_named_with_its_cell(tmp_path):
    class Raises(Scheduler):
        def decide(self, view):
            raise RuntimeError("no such luck")

    with pytest.raises(UserError, match=r"scheduler bad failed in cell somewhere / somewhere_stage0_w00 / LOW / bad: "
                                        r"RuntimeError: no such luck \(test_simulation.py, line \d+\)"):  # fmt: skip
        shard(tmp_path, Raises, "bad")
    assert not list(tmp_path.iterdir())


def test_repetitions_that_differ_stop_the_shard(tmp_path):
    moods = itertools.count()

    class Moody(Scheduler):
        def reset(self):
            self.patience = next(moods)

        def decide(self, view):
            return Action([r.request_id for r in view.waiting] if view.step >= self.patience else ())

    with pytest.raises(UserError, match="not deterministic"):
        shard(tmp_path, Moody, "moody")


def test_a_scheduler_that_never_admits_gives_zero_goodput_and_undefined_latency(tmp_path):
    class Never(Scheduler):
        def decide(self, view):
            return Action(valid_steps=10**9)

    cells = shard(tmp_path, Never, "never", windows=[window(0)])
    assert (cells["arrival_normalized_weighted_goodput"] == 0).all()
    assert cells["mean_latency"].isna().all()
    assert (cells["n_steps"] >= 50_000).all()


def test_a_window_without_calibration_is_named(tmp_path):
    with pytest.raises(UserError, match="no calibration for somewhere_stage0_w01"):
        shard(tmp_path, partial(make_scheduler, "fifo"), lambda_ref={"somewhere_stage0_w00": 10.0})


def test_calibration_table(tmp_path):
    windows = [window(0), window(1)]
    calibrate_windows(windows, tmp_path / "calibration.parquet", "published", PUBLISHED_MODEL.calibrate)
    table = read_table(tmp_path / "calibration.parquet", CALIBRATION_SCHEMA).to_pandas()
    assert table["window_id"].tolist() == [w.window_id for w in windows]
    assert [len(factors) for factors in table["load_factors"]] == [32, 32]
    assert read_lambda_ref(tmp_path / "calibration.parquet")["somewhere_stage0_w01"] == table["lambda_ref"][1]


def test_calibration_at_the_ends_of_its_range():
    relaxed = Workload(
        *(np.ones(3) * 9e9 if name == "deadline_s" else np.ones(3, int) for name in list(Workload.__annotations__)[:6])
    )
    assert calibrate(relaxed).lambda_ref == 1e4
    tight = synthesize(np.array([0.0, 1.0]), np.array([1, 1]), np.array([1, 5]), 0)
    hopeless = Workload(**{**vars(tight), "deadline_s": tight.arrival_s})
    assert calibrate(hopeless).lambda_ref == 0.01


def test_registry():
    assert len(schedulers_of("published")) == 13
    assert len(schedulers_of("serving")) == 16
    assert len(primary_schedulers()) == 11
    with pytest.raises(UserError, match="'lifo' is unknown"):
        make_scheduler("lifo")

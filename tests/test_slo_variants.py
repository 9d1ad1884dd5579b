"""Cells under other SLOs: equal to plain simulation, to the run's own at 20, and who looks at deadlines."""

import math
import operator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from servestudy.engine.fixed_step import run
from servestudy.errors import UserError
from servestudy.metrics import METRICS
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.schedulers.protocol import Action, Scheduler
from servestudy.schedulers.registry import make_scheduler, schedulers_of
from servestudy.simulation import CELL_SCHEMA, measure, simulate_shard
from servestudy.slo_variants import (
    REGIONS_USED,
    DeadlineReadError,
    UnreadableDeadline,
    outcomes,
    simulate_variants,
    variant_rows,
)
from servestudy.tables import read_table, write_table
from servestudy.windows.frozen import FrozenWindow
from servestudy.workload import REGIONS, rescale, synthesize

READERS = {
    "edf",
    "least_laxity_first",
    "admission_control",
    "kv_constrained_online",
    "estimated_service_time_first",  # only where two estimates are equal
    "scorpio_style_slo_guard",
}
LOAD = 400.0


def crowded(number=0, source="somewhere", n=90):
    """A window whose requests queue at LOAD; many prompts and outputs are equal."""
    rng = np.random.default_rng(number)
    times = np.sort(rng.uniform(0, 20, n))
    return FrozenWindow(
        source, f"{source}_w{number:02d}", number, times, rng.choice([30, 9000], n), rng.choice([2, 150], n)
    )


def workload_of(window):
    return synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number)


def plain_row(window, name, region, multiplier):
    """Metrics of a cell whose deadlines are moved by the published formula after scaling."""
    scaled = rescale(workload_of(window), LOAD * REGIONS[region])
    slack = scaled.deadline_s - scaled.arrival_s
    moved = replace(scaled, deadline_s=scaled.arrival_s + slack * multiplier / 20)
    return measure(run(moved.requests(), moved.output_tokens.tolist(), make_scheduler(name)), moved, PUBLISHED_MODEL)


@pytest.mark.parametrize("name", schedulers_of("published"))
def test_rows_are_those_of_a_simulation_of_each_multiplier(name):
    window = crowded()
    rows = variant_rows(window, LOAD, name, partial(make_scheduler, name), [10, 20, 40])
    assert list(rows) == [10, 20, 40]
    for multiplier, of_multiplier in rows.items():
        assert [row["region"] for row in of_multiplier] == list(REGIONS_USED)
        for row in of_multiplier:
            expected = plain_row(window, name, row["region"], multiplier)
            assert repr({key: row[key] for key in expected}) == repr(expected)


def test_the_studys_own_slack_is_left_to_the_last_bit():
    workload = workload_of(crowded())
    assert rescale(workload, 7.3).deadline_s.tolist() == rescale(workload, 7.3, 20 / 20).deadline_s.tolist()
    half = rescale(workload, 7.3, 10 / 20)
    assert half.arrival_s.tolist() == rescale(workload, 7.3).arrival_s.tolist()
    assert (half.deadline_s < rescale(workload, 7.3).deadline_s).all()


@pytest.mark.parametrize("name", schedulers_of("published"))
def test_only_schedulers_that_read_the_deadline_get_a_run_for_each_multiplier(name):
    made = []

    def make():
        made.append(name)
        return make_scheduler(name)

    scaled = {multiplier: rescale(workload_of(crowded()), LOAD, multiplier / 20) for multiplier in (20, 10, 40)}
    found = outcomes(scaled, make)
    assert list(found) == [20, 10, 40]
    assert len(made) == (4 if name in READERS else 1)


@pytest.mark.parametrize(
    "use",
    [
        *(partial(getattr(operator, name), 1.0) for name in ("lt", "gt", "le", "ge", "eq", "ne", "add", "sub", "mul")),
        *(lambda deadline, op=op: op(deadline, 1.0) for op in (operator.sub, operator.truediv, operator.mod, pow)),
        *(float, int, bool, abs, round, hash, repr, str, format, np.float64, operator.neg, math.floor, np.isnan),
        lambda deadline: sorted([(deadline, 1), (UnreadableDeadline(), 0)]),
        lambda deadline: min(deadline, UnreadableDeadline()),
        lambda deadline: np.array([deadline], dtype=float),
        lambda deadline: deadline.real,
    ],
)
def test_an_unreadable_deadline_objects_to_every_use(use):
    with pytest.raises(DeadlineReadError):
        use(UnreadableDeadline())


def test_a_scheduler_that_raises_is_named_with_its_cell():
    class Raises(Scheduler):
        def decide(self, view):
            raise RuntimeError("no such luck")

    with pytest.raises(UserError, match=r"scheduler bad failed in cell somewhere / somewhere_w00 / PRE_KNEE / bad"):
        variant_rows(crowded(), LOAD, "bad", Raises, [10, 20])


def test_a_scheduler_that_never_admits_stays_undefined():
    class Never(Scheduler):
        def decide(self, view):
            return Action(valid_steps=10**9)

    rows = variant_rows(crowded(), LOAD, "never", Never, [10, 40])
    assert all(row["arrival_normalized_weighted_goodput"] == 0 for of in rows.values() for row in of)
    assert all(math.isnan(row["mean_latency"]) for of in rows.values() for row in of)


# A shard


@pytest.fixture
def shard(tmp_path):
    """Two windows of a source with cells of two schedulers, and a function that simulates their variants."""
    windows = [crowded(0), crowded(1)]
    lambda_ref = {window.window_id: LOAD for window in windows}
    cells = [tmp_path / "edf.parquet", tmp_path / "fifo.parquet"]
    for path in cells:
        simulate_shard(windows, lambda_ref, path.stem, partial(make_scheduler, path.stem), 2, PUBLISHED_MODEL, path)
    out = {10: tmp_path / "10.parquet", 40: tmp_path / "40.parquet"}

    def simulate(windows=windows, lambda_ref=lambda_ref, cells=cells, schedulers=("edf", "fifo")):
        simulate_variants(windows, lambda_ref, cells, schedulers, out)
        return {multiplier: read_table(path, CELL_SCHEMA).to_pandas() for multiplier, path in out.items()}

    simulate.cells, simulate.out = cells, out
    return simulate


def test_cells_of_the_variants(shard):
    tables = shard()
    own = {path.stem: read_table(path, CELL_SCHEMA).to_pandas() for path in shard.cells}
    for table in tables.values():
        assert len(table) == 2 * 2 * len(REGIONS_USED)
        assert set(table["repetition"]) == {0}
        assert table["window_number"].is_monotonic_increasing
    anwg = METRICS[0].name
    late = [table.loc[table["scheduler"] == "fifo", anwg].sum() for table in (tables[10], tables[40])]
    assert late[0] < own["fifo"].query("repetition == 0 and region != 'LOW'")[anwg].sum() < late[1]
    hashes = [table.loc[table["scheduler"] == "fifo", "outcome_sha256"].tolist() for table in tables.values()]
    assert hashes[0] == hashes[1]


def test_two_runs_write_the_same_bytes(shard):
    shard()
    first = [path.read_bytes() for path in shard.out.values()]
    shard()
    assert [path.read_bytes() for path in shard.out.values()] == first


def test_cells_that_are_not_the_runs_own_stop_the_step(shard):
    table = read_table(shard.cells[1], CELL_SCHEMA).to_pylist()
    table[8]["mean_latency"] = math.nextafter(table[8]["mean_latency"], 1)
    write_table(pa.Table.from_pylist(table, CELL_SCHEMA), CELL_SCHEMA, shard.cells[1])
    which = " / ".join(table[8][key] for key in ("source", "window_id", "region", "scheduler"))
    with pytest.raises(UserError, match=rf"cell {which} of the run: its mean_latency is .* simulated again"):
        shard()
    assert not any(path.exists() for path in shard.out.values())


def test_cells_of_another_calibration_stop_the_step(shard):
    with pytest.raises(UserError, match=r"somewhere_w01 / PRE_KNEE / .* simulated again"):
        shard(lambda_ref={"somewhere_w00": LOAD, "somewhere_w01": LOAD * 1.01})


def test_missing_cells_and_calibration_are_named(shard):
    with pytest.raises(UserError, match="somewhere_w00 / PRE_KNEE / fifo of the run: absent"):
        shard(cells=shard.cells[:1])
    with pytest.raises(UserError, match="no calibration for somewhere_w01"):
        shard(lambda_ref={"somewhere_w00": LOAD})

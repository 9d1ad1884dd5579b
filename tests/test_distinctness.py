"""Schedulers that behave alike: groups against pairwise comparison, merged tau against SciPy, wrong inputs."""

import itertools
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import kendalltau

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics import distinct_agreement, distinctness
from servestudy.statistics.outcomes import read_outcomes
from servestudy.statistics.registry import run_analysis
from servestudy.statistics.window_values import VALUE_COLUMNS, load_values
from servestudy.tables import write_table

SCHEDULERS = ("fifo", "edf", "twin_b", "twin_a", "late_twin")
REGIONS = ("LOW", "KNEE")


def made_cells(seed=0, sources=("a", "b", "c"), n_windows=4):
    """Rows of CELL_SCHEMA with two equal repetitions. The outcome of a cell is a letter.

    twin_a is twin_b everywhere. late_twin is a twin of edf at KNEE, but in the last window of source c, where nobody
    else has its outcome. fifo and edf meet by chance.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for source, window, region in itertools.product(sources, range(n_windows), REGIONS):
        outcomes = {scheduler: "xyz"[rng.integers(3)] for scheduler in SCHEDULERS[:2]} | {"twin_b": "t", "twin_a": "t"}
        outcomes["late_twin"] = outcomes["edf"] if region == "KNEE" else "own"
        if (source, window, region) == ("c", n_windows - 1, "KNEE"):
            outcomes["late_twin"] = "own"
        values = {outcome: rng.integers(0, 200) / 200 for outcome in sorted(set(outcomes.values()))}
        for scheduler, repetition in itertools.product(SCHEDULERS, (0, 1)):
            row = {field.name: 0 if pa.types.is_integer(field.type) else 0.0 for field in CELL_SCHEMA}
            row |= {"model": "published", "source": source, "window_id": f"{source}_w{window}", "window_number": window}
            row |= {"region": region, "scheduler": scheduler, "repetition": repetition}
            row |= {"outcome_sha256": outcomes[scheduler], PRIMARY_METRIC: values[outcomes[scheduler]]}
            rows.append(row)
    return rows


@pytest.fixture
def write(tmp_path):
    """write(rows) writes cells, one file a scheduler, and returns the paths."""

    def write_cells(rows):
        paths = []
        for scheduler in dict.fromkeys(row["scheduler"] for row in rows):
            paths.append(tmp_path / f"{scheduler}.parquet")
            of_scheduler = [row for row in rows if row["scheduler"] == scheduler]
            write_table(pa.Table.from_pylist(of_scheduler, CELL_SCHEMA), CELL_SCHEMA, paths[-1])
        return paths

    return write_cells


def slow_groups(names, equal):
    """Classes of an equivalence, found by comparing every name with every group."""
    groups = []
    for name in sorted(names):
        home = next((group for group in groups if equal(group[0], name)), None)
        groups.append([name]) if home is None else home.append(name)
    return groups


def test_groups_of_each_window_equal_pairwise_comparison(write):
    rows = made_cells()
    paths = write(rows)
    table = distinctness.analyse(load_values(paths), read_outcomes(paths))
    assert list(table.columns) == distinctness.SCHEMA.names
    assert len(table) == 3 * 4 * 2
    outcome = {(r["source"], r["region"], r["window_id"], r["scheduler"]): r["outcome_sha256"] for r in rows}
    for row in table.itertuples():
        key = row.source, row.region, row.window_id
        groups = slow_groups(SCHEDULERS, lambda a, b, key=key: outcome[*key, a] == outcome[*key, b])
        assert (row.n_schedulers, row.n_distinct, row.n_largest_group) == (5, len(groups), max(map(len, groups)))
        assert row.equals == ", ".join(" = ".join(group) for group in groups if len(group) > 1)
    assert table["n_distinct"].nunique() > 1


def test_tau_of_merged_schedulers_equals_scipy_on_representatives(write):
    rows = made_cells(3)
    paths = write(rows)
    table = distinct_agreement.analyse(load_values(paths), read_outcomes(paths))
    assert list(table.columns) == distinct_agreement.SCHEMA.names
    assert len(table) == 2 * 3
    frame = pd.DataFrame(rows)
    means = frame.groupby(["region", "source", "scheduler"])[PRIMARY_METRIC].apply(
        lambda values: np.mean(values.to_numpy()[::2])
    )
    for row in table.itertuples():
        in_pair = frame[frame["source"].isin([row.source_x, row.source_y]) & (frame["region"] == row.region)]
        outcomes = {name: list(cells["outcome_sha256"]) for name, cells in in_pair.groupby("scheduler")}
        groups = slow_groups(SCHEDULERS, lambda a, b, outcomes=outcomes: outcomes[a] == outcomes[b])
        x, y = means[row.region, row.source_x], means[row.region, row.source_y]
        first = [group[0] for group in groups]
        assert row.tau_b == kendalltau(x, y)[0]
        assert row.tau_b_distinct == kendalltau(x[first], y[first])[0]
        assert (row.n_schedulers, row.n_distinct) == (5, len(groups))
    merged = table.set_index(["region", "source_x", "source_y"])["merged"]
    assert merged["LOW", "a", "b"] == "twin_a = twin_b"
    assert merged["KNEE", "a", "b"] == "edf = late_twin, twin_a = twin_b"
    assert merged["KNEE", "a", "c"] == "twin_a = twin_b"  # they differ in one window of c
    differs = table["tau_b"] != table["tau_b_distinct"]
    assert differs.any()


def test_schedulers_left_out_are_in_no_group(write):
    paths = write(made_cells())
    values = load_values(paths, ["twin_b", "fifo"])
    windows = distinctness.analyse(values, read_outcomes(paths))
    assert set(windows["n_schedulers"]) == {2}
    assert set(windows["equals"]) == {""}
    pairs = distinct_agreement.analyse(values, read_outcomes(paths))
    assert set(pairs["merged"]) == {""}
    assert (pairs["tau_b"] == pairs["tau_b_distinct"]).all()


def test_one_window_one_source_and_schedulers_all_alike(write, tmp_path):
    rows = [{**row, "outcome_sha256": "x", PRIMARY_METRIC: 0.5} for row in made_cells(2, n_windows=1)]
    paths = write(rows)
    windows = distinctness.analyse(load_values(paths), read_outcomes(paths))
    assert (windows["n_distinct"] == 1).all()
    pairs = distinct_agreement.analyse(load_values(paths), read_outcomes(paths))
    assert (pairs["n_distinct"] == 1).all()
    assert all(math.isnan(tau) for tau in (*pairs["tau_b"], *pairs["tau_b_distinct"]))
    paths = write([row for row in rows if row["source"] == "a"])
    run_analysis("distinct_agreement", paths, None, None, None, tmp_path / "out/one.parquet")
    assert pd.read_parquet(tmp_path / "out/one.parquet").empty


def test_the_command_gives_the_outcomes_to_the_analysis(write, tmp_path):
    paths = write(made_cells())
    for name, module in (("distinctness", distinctness), ("distinct_agreement", distinct_agreement)):
        run_analysis(name, paths, list(SCHEDULERS), None, None, tmp_path / "out/t.parquet")
        expected = module.analyse(load_values(paths), read_outcomes(paths))
        written = pd.read_parquet(tmp_path / "out/t.parquet")
        assert written.to_dict("records") == expected.to_dict("records")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_foreign_table_has_no_outcomes(tmp_path, suffix):
    table = pd.DataFrame([["a", "w0", "LOW", "fifo", PRIMARY_METRIC, 0.5]], columns=VALUE_COLUMNS)
    path = tmp_path / f"values.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    with pytest.raises(UserError, match=rf"values\.{suffix}: not cells of a run, so nothing tells"):
        run_analysis("distinctness", [path], None, None, None, tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_cells_of_two_models_are_not_mixed(write):
    rows = made_cells()
    other = [{**rows[0], "model": "serving", "outcome_sha256": "other"}]
    with pytest.raises(UserError, match="cell a / LOW / a_w0 / fifo has two different outcomes"):
        read_outcomes(write(rows + other))

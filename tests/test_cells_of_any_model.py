"""Cells of another engine model, with schedulers of its own: every analysis, figure and table takes them."""

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.registry import FIGURES, draw_figure
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics.explanation import DESCRIPTORS
from servestudy.statistics.registry import ANALYSES, run_analysis
from servestudy.statistics.window_values import METRIC_NAMES, load_values
from servestudy.tables import write_frame
from servestudy.tabulation.registry import TABLES, write_csv_table

SOURCES = ("azure_like", "burstgpt_like")
SCHEDULERS = ("fifo", "my_scheduler", "shortest_remaining_first")
REGIONS = ("PRE_KNEE", "KNEE")
WINDOWS, REPETITIONS = 5, 2
BLANKS = {pa.string(): "", pa.int32(): 0, pa.int64(): 0, pa.float64(): 0.0}


def made_cells(model: str) -> pd.DataFrame:
    """Random metrics in steps of 1/20, some undefined; repetitions are equal."""
    rng = np.random.default_rng(0)
    keys = list(product(SOURCES, range(WINDOWS), REGIONS, SCHEDULERS))
    frame = pd.DataFrame(keys, columns=["source", "window_number", "region", "scheduler"])
    for name in METRIC_NAMES:
        frame[name] = rng.integers(1, 21, len(frame)) / 20
    frame.loc[rng.random(len(frame)) < 0.1, "mean_latency"] = np.nan
    frame["outcome_sha256"] = rng.choice(["a", "b", "c"], len(frame))
    frame["window_id"] = frame["source"] + "_w" + frame["window_number"].astype(str)
    frame["model"] = model
    frame = pd.concat([frame.assign(repetition=number) for number in range(REPETITIONS)], ignore_index=True)
    for field in CELL_SCHEMA:
        if field.name not in frame:
            frame[field.name] = BLANKS[field.type]
    return frame


def written(frame: pd.DataFrame, path):
    write_frame(frame, CELL_SCHEMA, path)
    return path


@pytest.fixture(scope="module")
def window_index(tmp_path_factory):
    """The columns that analyses read of a window index."""
    rows = made_cells("")[["source", "window_id", "window_number"]].drop_duplicates(ignore_index=True)
    rng = np.random.default_rng(1)
    rows = rows.assign(start_row=rows["window_number"] * 200, time_s_min=rows["window_number"] * 1e3)
    for name in DESCRIPTORS:
        rows[name] = rng.random(len(rows))
    path = tmp_path_factory.mktemp("index") / "index.csv"
    rows.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def analysed(tmp_path_factory, window_index):
    """Paths of all analysis tables by model and name."""
    folder = tmp_path_factory.mktemp("models")
    tables = {}
    for model in ("published", "serving"):
        cells = written(made_cells(model), folder / model / "cells.parquet")
        for name in ANALYSES:
            tables[model, name] = folder / model / f"{name}.parquet"
            run_analysis(name, [cells], None, None, window_index, tables[model, name])
    return tables


@pytest.mark.parametrize("analysis", ANALYSES)
def test_the_name_of_the_model_changes_nothing_in_an_analysis(analysed, analysis):
    assert analysed["serving", analysis].read_bytes() == analysed["published", analysis].read_bytes()
    frame = pd.read_parquet(analysed["serving", analysis])
    for column in {"scheduler", "scheduler_a"}.intersection(frame):
        assert "my_scheduler" in set(frame[column])


@pytest.mark.parametrize("figure", [name for name, item in FIGURES.items() if set(item.reads) <= set(ANALYSES)])
def test_figures_name_the_model(analysed, tmp_path, figure):
    files = {name: analysed["serving", name] for name in FIGURES[figure].reads}
    draw_figure(figure, files, "made", "serving", [tmp_path / "figure.svg"])
    assert "made, serving model" in (tmp_path / "figure.svg").read_text()


@pytest.mark.parametrize("table", [name for name, item in TABLES.items() if set(item.reads) <= set(ANALYSES)])
def test_tables_name_the_model_and_keep_its_own_schedulers(analysed, tmp_path, table):
    files = {name: analysed["serving", name] for name in TABLES[table].reads}
    rows = write_csv_table(table, files, "made", "serving", tmp_path / "table.csv")
    assert set(rows["model"]) == {"serving"}
    if "scheduler" in rows:
        assert "my_scheduler" in set(rows["scheduler"])


def test_repetitions_of_a_cell_are_averaged(tmp_path):
    cells = made_cells("serving")
    again = cells["repetition"] == 1
    values = load_values(
        [written(cells.assign(**{PRIMARY_METRIC: cells[PRIMARY_METRIC] + again}), tmp_path / "c.parquet")]
    )
    first = cells[PRIMARY_METRIC].iloc[0]
    assert values.of("azure_like", "PRE_KNEE", PRIMARY_METRIC)[0, 0] == pytest.approx(first + 0.5, abs=1e-15)


def test_cells_of_two_models_are_not_averaged(tmp_path):
    paths = [written(made_cells(model), tmp_path / f"{model}.parquet") for model in ("published", "serving")]
    with pytest.raises(UserError, match="engine models published, serving together; give those of one"):
        load_values(paths)


def test_a_cell_that_is_given_twice_is_refused(tmp_path):
    cells = written(made_cells("serving"), tmp_path / "cells.parquet")
    with pytest.raises(UserError, match="cell azure_like / azure_like_w0 / PRE_KNEE / fifo is given twice"):
        load_values([cells, cells])


def test_a_value_that_two_tables_have_is_refused(tmp_path):
    cells = made_cells("serving")
    long = cells[cells["repetition"] == 0].assign(metric=PRIMARY_METRIC, value=0.5)
    row = long.iloc[[7]]
    row[["source", "window_id", "region", "scheduler", "metric", "value"]].to_csv(tmp_path / "long.csv", index=False)
    key = " / ".join([*row[["source", "window_id", "region", "scheduler"]].iloc[0], PRIMARY_METRIC])
    with pytest.raises(UserError, match=f"two of the tables have a value of {key}"):
        load_values([written(cells, tmp_path / "cells.parquet"), tmp_path / "long.csv"])

"""`servestudy cell` prints what the run stores of that cell, and names what it does not know."""

import shutil

import pyarrow.parquet as pq
import pytest
from made_runs import first_requests, write_cells, write_run

from servestudy.cli import main
from servestudy.published_model import PUBLISHED_MODEL

CELL = {"--source": "azure_like", "--region": "KNEE", "--scheduler": "edf", "--run": "made"}


@pytest.fixture
def run(project, embedded_windows, tmp_path, monkeypatch):
    """A folder with a small run in it, as the current one."""
    windows = {"azure_like": [first_requests(each, 30) for each in embedded_windows["azure_like"][:2]]}
    folder = tmp_path / "results/made"
    write_run(folder, windows, [PUBLISHED_MODEL])
    write_cells(folder, windows, PUBLISHED_MODEL, ["edf"])
    (tmp_path / "config").mkdir()
    shutil.copy(project / "config/sources.tsv", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    return folder


def cell(**changed: str) -> int:
    options = CELL | {f"--{name}": value for name, value in changed.items()}
    return main(["cell", *(word for pair in options.items() for word in pair)])


@pytest.mark.parametrize("by_number", [True, False])
def test_it_prints_the_stored_values_of_the_cell(run, capsys, by_number):
    stored = pq.read_table(run / "cells/published/azure_like/edf.parquet").to_pylist()
    row = next(row for row in stored if (row["window_number"], row["region"], row["repetition"]) == (1, "KNEE", 0))
    assert cell(window="1" if by_number else row["window_id"]) == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert float(printed["arrival_normalized_weighted_goodput"]) == row["arrival_normalized_weighted_goodput"]
    assert float(printed["mean_ttft"]) == row["mean_ttft"]
    assert printed["outcome_sha256"] == row["outcome_sha256"]
    assert printed["window_id"] == row["window_id"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"window": "7"}, "window '7' is unknown"),
        ({"window": "0", "source": "azur"}, "source 'azur' is unknown"),
        ({"window": "0", "region": "KNEEL"}, "region 'KNEEL' is unknown"),
        ({"window": "0", "scheduler": "edfx"}, "edfx"),
        ({"window": "0", "run": "other"}, "results/other/windows/azure_like.parquet: not found"),
    ],
)
def test_it_names_what_it_does_not_know(run, capsys, changed, told):
    assert cell(**changed) == 1
    assert told in capsys.readouterr().err

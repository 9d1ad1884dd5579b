"""The notebooks and what they use, without a run: tests/test_workflow.py executes them on one."""

import json
import re
from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from servestudy.errors import UserError
from servestudy.items import FIGURE, ITEMS, TABLE
from servestudy.notebook import NotMade, Wrong, find_root, open_run
from servestudy.notebook_html import shown, table_of
from servestudy.notebook_inputs import code_of, files_of, items_of, modules_of, shown_code
from servestudy.notebook_pages import write_page
from servestudy.tables import column, write_frame

NAMES = [
    "01_traces_and_windows",
    "02_one_cell",
    "03_rankings_and_reversals",
    "04_audit",
    "05_tiers",
    "06_simulator_against_engine",
]
BOTH = {"published": ["fifo", "edf"], "serving": ["fifo"]}


@pytest.fixture(scope="module")
def notebooks(project: Path) -> list[Path]:
    return sorted((project / "notebooks").glob("*.ipynb"))


# The notebooks themselves


def test_there_are_six(notebooks):
    assert [path.stem for path in notebooks] == NAMES


def test_each_figure_and_table_is_in_exactly_one_notebook(notebooks):
    counts = Counter((item.kind, item.name) for path in notebooks for item in items_of(path))
    assert set(counts) == set(ITEMS)
    assert [item for item, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_stored_as_written_not_as_run(project, name):
    text = (project / f"notebooks/{name}.ipynb").read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert notebook.metadata.kernelspec.name == "python3"
    assert text.endswith("}\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_begins_with_a_question_and_states_no_number(project, name):
    cells = nbformat.read(project / f"notebooks/{name}.ipynb", as_version=4).cells
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert re.match(r"# .*\?\n", cells[0].source)
    assert [text for text in prose if re.search(r"\d", text)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_draws_a_figure_that_it_shows_or_a_timeline(project, name):
    text = code_of(project / f"notebooks/{name}.ipynb")
    drawn = re.search(r"from (servestudy\.plotting\.\w+) import draw\n", text)
    if drawn:
        shown_here = {item.module for item in items_of(project / f"notebooks/{name}.ipynb") if item.kind == FIGURE}
        assert drawn[1] in shown_here
    else:
        assert "saved_by(draw_timeline" in text


# What the workflow takes as their inputs


def notebook_file(folder: Path, *cells: str) -> Path:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell, id=f"c{n}") for n, cell in enumerate(cells)])
    path = folder / "made.ipynb"
    nbformat.write(made, path)
    return path


def test_inputs_are_the_items_and_the_tables_behind_them(tmp_path):
    path = notebook_file(tmp_path, 'run.figure("portability/tau_heatmap")', 'run.table(\n    "tiers/claims_of_tiers")')
    assert files_of(path, ["one"], BOTH) == [
        "<tables>/portability/sources.csv",
        "<figures>/portability/tau_heatmap.svg",
        "<results>/statistics/published/agreement.parquet",
        "<tables>/tiers/claims_of_tiers.csv",
        "<results>/tiers/claims.csv",
    ]


def test_names_in_a_path_stand_for_all_that_the_run_has(tmp_path):
    path = notebook_file(tmp_path, 'run.data("cells/{model}/{source}/{scheduler}.parquet", model="serving")')
    cells = [f"<results>/cells/published/{source}/{name}.parquet" for source in "xy" for name in BOTH["published"]]
    assert files_of(path, ["x", "y"], BOTH)[1:] == [
        *cells,
        "<results>/cells/serving/x/fifo.parquet",
        "<results>/cells/serving/y/fifo.parquet",
    ]


def test_a_run_without_a_model_lacks_the_items_of_both(tmp_path):
    path = notebook_file(tmp_path, 'run.table("audit/models")', 'run.figure("tiers/per_tier")')
    files = files_of(path, ["x"], {"published": ["fifo"]})
    assert "<figures>/tiers/per_tier.svg" in files
    assert not [file for file in files if "audit" in file or "statistics" in file]


def test_code_is_what_a_notebook_imports_and_what_it_prints(tmp_path):
    path = notebook_file(
        tmp_path, "from servestudy.metrics import METRICS\nimport json", 'run.table("portability/first_n")'
    )
    assert modules_of(path) == ["servestudy.metrics"]
    assert [file.name for file in shown_code(path)] == ["first_n.py"]


def test_an_unknown_item_and_a_file_that_is_no_notebook_are_named(tmp_path):
    with pytest.raises(UserError, match="figure 'portability/tau' is unknown; known are portability/tau_heatmap"):
        items_of(notebook_file(tmp_path, 'run.figure("portability/tau")'))
    (tmp_path / "made.ipynb").write_text("{}")
    with pytest.raises(UserError, match=r"made\.ipynb: not a notebook"):
        items_of(tmp_path / "made.ipynb")


# What they use


@pytest.fixture
def made_run(tmp_path: Path) -> Path:
    """A project with a run that has one figure, one table and what they are made of."""
    root = tmp_path / "project"
    (root / "config").mkdir(parents=True)
    (root / "Snakefile").touch()
    (root / "config/config.yaml").write_text("run: made\n")
    (root / "config/other.yaml").write_text("run: other\n")
    (root / "results/made/calibration/published").mkdir(parents=True)
    (root / "notebooks").mkdir()
    origin = pd.DataFrame({"trace_set": ["made traces"], "model": ["published"], "source": ["one"]})
    sweep = pd.DataFrame({"trace_set": ["made traces"] * 2, "statistic": ["mean <b>", "least"], "LOW": [0.25, np.nan]})
    for name, frame in (("sources", origin), ("tau_by_region", sweep)):
        path = root / f"tables/portability/{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index=False, na_rep="undefined")
    (root / "figures/portability").mkdir(parents=True)
    (root / "figures/portability/tau_heatmap.svg").write_text('<svg width="100pt" height="9pt"></svg>')
    schema = pa.schema(
        [column("metric", pa.string(), "name of the metric"), column("tau_b", pa.float64(), "agreement")]
    )
    frame = pd.DataFrame({"metric": ["anwg"] * 9, "tau_b": np.linspace(0, 1, 9)})
    write_frame(frame, schema, root / "results/made/statistics/published/agreement.parquet")
    return root


def test_the_run_is_found_from_any_folder_of_the_project(made_run, monkeypatch):
    monkeypatch.delenv("SERVESTUDY_RUN", raising=False)
    for folder in (made_run, made_run / "notebooks", made_run / "results/made"):
        monkeypatch.chdir(folder)
        assert open_run().results == made_run / "results/made"
    monkeypatch.chdir(made_run.parent)
    with pytest.raises(Wrong, match="not inside the project"):
        open_run()


def test_another_run_is_chosen_by_the_environment(made_run, monkeypatch):
    monkeypatch.setenv("SERVESTUDY_RUN", "other")
    (made_run / "results/other/tables").mkdir(parents=True)
    (made_run / "tables/portability").rename(made_run / "results/other/tables/portability")
    assert open_run(start=made_run).name == "other"


def test_what_is_missing_is_told_with_the_command_that_makes_it(made_run):
    with pytest.raises(NotMade, match=r"figures/tiers/per_tier\.svg is not there: run `snakemake \S+svg --cores 2`"):
        open_run("made", made_run).figure("tiers/per_tier")
    with pytest.raises(NotMade, match=r"--configfile config/other\.yaml"):
        open_run("other", made_run)
    (made_run / "results/made").rename(made_run / "results/gone")
    with pytest.raises(NotMade, match="results/made is not there: run `make`") as told:
        open_run("made", made_run)
    assert told.value._render_traceback_() == [f"NotMade: {told.value}"]


def test_a_figure_comes_with_its_command_its_code_and_its_data(made_run):
    page = open_run("made", made_run).figure("portability/tau_heatmap")._repr_html_()
    assert "snakemake figures/portability/tau_heatmap.svg --cores 2" in page
    assert "def draw(tables: dict[str, pd.DataFrame], context: Context) -&gt; Figure:" in page
    assert "results/made/statistics/published/agreement.parquet, 9 rows" in page
    assert 'title="agreement">tau_b</th>' in page
    assert page.count("<tr>") == 6, "the head of the table, and five rows"


def test_a_table_shows_its_values_and_names_once_what_all_rows_share(made_run):
    table = open_run("made", made_run).table("portability/tau_by_region")
    page = table._repr_html_()
    assert page.count("made traces") == 1
    assert "mean &lt;b&gt;" in page
    assert ">0.25<" in page
    assert ">undefined<" in page
    assert np.isnan(table.frame["LOW"][1])


def test_an_item_that_the_run_leaves_out_is_said_to_be(made_run):
    note = open_run("made", made_run).figure("audit/models_tau")._repr_html_()
    assert "The run made has no figure audit/models_tau: it leaves out the engine model serving." in note


def test_an_unknown_item_is_told_without_a_traceback(made_run):
    with pytest.raises(Wrong, match="table 'tiers/x' is unknown"):
        open_run("made", made_run).table("tiers/x")
    with pytest.raises(Wrong, match=r"tau_by_region\.csv: no column HIGH; it has trace_set, statistic, LOW"):
        open_run("made", made_run).table("portability/tau_by_region", "statistic HIGH")


def test_values_have_four_digits_that_count():
    values = (0.123456, 12345.6, "0.5000001", "2560", "H1", float("nan"), float("inf"), 7, True, "1e-7", "x" * 500)
    assert [shown(value) for value in values] == [
        *("0.1235", "12,346", "0.5", "2560", "H1", "undefined", "inf", "7", "True", "1e-07", f"{'x' * 400} ..."),
    ]


def test_of_a_long_table_the_first_rows_are_shown():
    page = table_of(pd.DataFrame({"a": range(20), "b": 1}), ["a"], 3, "long.csv")
    assert "20 rows, the first 3 are shown, all are in long.csv; further columns in long.csv: b." in page
    assert page.count("<tr>") == 4


# Executing them


def test_two_executions_give_the_same_bytes_and_need_no_network(made_run, monkeypatch):
    monkeypatch.chdir(made_run)
    path = notebook_file(
        made_run / "notebooks",
        "from servestudy.notebook import open_run\nrun = open_run()\nrun",
        'print("some text")\nrun.figure("portability/tau_heatmap")',
    )
    pages = []
    for name in ("first", "second"):
        if name == "second":  # somebody looked at it in JupyterLab and saved it
            opened = nbformat.read(path, as_version=4)
            opened.cells[1].execution_count = 7
            opened.cells[1].outputs = [nbformat.v4.new_output("stream", text="other")]
            nbformat.write(opened, path)
        write_page(path, "made", made_run / f"{name}.html")
        pages.append((made_run / f"{name}.html").read_bytes())
    assert pages[0] == pages[1]
    text = pages[0].decode()
    assert "some text" in text
    assert "Run made: made traces." in text
    assert not re.search(r"<script|<link|(src|href)=.?https?:", text)


def test_a_cell_that_fails_is_named_and_no_page_is_left(made_run, monkeypatch):
    monkeypatch.chdir(made_run)
    path = notebook_file(
        made_run / "notebooks",
        "from servestudy.notebook import open_run\nrun = open_run()",
        'run.figure("tiers/per_tier")',
    )
    with pytest.raises(
        UserError, match=r"made\.ipynb: cell 2: NotMade: figures/tiers/per_tier\.svg is not there: run `snake"
    ):
        write_page(path, "made", made_run / "page.html")
    assert not list(made_run.glob("page.html*"))


def test_a_notebook_that_is_not_there_or_none_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent\.ipynb: not found"):
        write_page(tmp_path / "absent.ipynb", "made", tmp_path / "page.html")
    (tmp_path / "broken.ipynb").write_text(json.dumps({"cells": 1}))
    with pytest.raises(UserError, match=r"broken\.ipynb: not a notebook"):
        write_page(tmp_path / "broken.ipynb", "made", tmp_path / "page.html")


def test_the_root_is_where_snakefile_and_configuration_are(project):
    assert find_root(project / "src/servestudy") == project
    assert {kind for kind, _ in ITEMS} == {FIGURE, TABLE}

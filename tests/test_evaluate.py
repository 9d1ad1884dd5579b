"""`servestudy evaluate`: loading a scheduler's file, its report card, and what it compares with."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_runs import first_requests, write_cells, write_run

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.evaluate.comparison import compare_with_panel, rank_of
from servestudy.evaluate.loading import scheduler_from_file
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.schedulers.published import edf as published_edf
from servestudy.schedulers.serving import shortest_remaining_first
from servestudy.serving_model import load_serving_model
from servestudy.statistics.window_values import WindowValues

PANELS = {
    "published": ["fifo", "edf", "least_laxity_first", "slai_faithful"],
    "serving": ["fifo", "edf", "shortest_remaining_first", "slai_faithful"],
}


@pytest.fixture(scope="session")
def small_run(embedded_windows, tmp_path_factory):
    """A run of two sources, three windows of 60 requests each, and four schedulers in either model."""
    folder = tmp_path_factory.mktemp("project")
    windows = {
        source: [first_requests(window, 60) for window in embedded_windows[source][:3]]
        for source in ("azure_like", "burstgpt_like")
    }
    models = [PUBLISHED_MODEL, load_serving_model()]
    run = folder / "results/small"
    write_run(run, windows, models)
    for model in models:
        write_cells(run, windows, model, PANELS[model.name])
    return folder


@pytest.fixture
def evaluate(small_run, tmp_path, monkeypatch, capsys):
    """Call with the text of a file, the class and options; returns status, what was printed and the card."""
    monkeypatch.chdir(small_run)

    def call(text, name, *options, file="mine.py"):
        path = tmp_path / file
        path.write_text(text)
        scheduler_from_file.cache_clear()
        card = tmp_path / "card.html"
        arguments = ["evaluate", f"{path}:{name}", "--run", "small", "--processes", "1", "--out", str(card)]
        status = main([*arguments, *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err, card.read_text() if card.exists() else ""

    return call


@pytest.mark.parametrize(
    ("model", "module", "name"),
    [("published", published_edf, "edf"), ("serving", shortest_remaining_first, "shortest_remaining_first")],
)
def test_a_copy_has_the_results_of_its_original(evaluate, small_run, tmp_path, model, module, name):
    class_name = "".join(word.title() for word in name.split("_"))
    regions = ["KNEE", "HIGH_PRESSURE"]
    options = ["--model", model, "--regions", *regions, "--cells", str(tmp_path / "cells")]
    status, printed, card = evaluate(inspect.getsource(module), class_name, *options, file=f"copy_of_{name}.py")
    assert status == 0, printed
    assert "nothing wrong was found in it" in printed
    assert "nothing wrong was found in it" in card
    mine = pq.read_table(tmp_path / f"cells/{model}.parquet").to_pylist()
    original = [
        row
        for source in ("azure_like", "burstgpt_like")
        for row in pq.read_table(small_run / f"results/small/cells/{model}/{source}/{name}.parquet").to_pylist()
        if row["repetition"] == 0 and row["region"] in regions
    ]
    assert len(mine) == 2 * 3 * 2
    assert [repr(row) for row in mine] == [repr(row | {"scheduler": class_name}) for row in original]
    line = next(line for line in printed.splitlines() if line.strip().startswith(f"{name} "))
    assert line.split() == [name, "0", "0", "==", "=="]


def test_the_card_is_the_same_for_cells_of_the_run_and_for_new_ones(evaluate):
    text = inspect.getsource(published_edf)
    options = ["--model", "published", "--regions", "KNEE", "--windows", "2", "--sources", "burstgpt_like"]
    _, from_run, _ = evaluate(text, "Edf", *options)
    _, from_new, _ = evaluate(text, "Edf", *options, "--fresh", "--processes", "2")
    assert "4 schedulers; windows: burstgpt_like 2" in from_run
    assert "13 schedulers; windows: burstgpt_like 2" in from_new
    means = [re.search(r"burstgpt_like +\S+ \[.*\] (\S+)", printed).group(1) for printed in (from_run, from_new)]
    assert means[0] == means[1]


def test_problems_stand_in_terminal_and_card_with_cell_step_and_request(evaluate):
    text = (
        "from servestudy.schedulers.protocol import Action, Scheduler\n"
        "class Late(Scheduler):\n"
        "    def decide(self, view):\n"
        "        if view.step > 30: raise RuntimeError('<b>late</b>')\n"
        "        return Action([r.request_id for r in view.queue])\n"
    )
    status, printed, card = evaluate(text, "Late", "--model", "published", "--regions", "LOW")
    assert status == 0
    line = next(line for line in printed.splitlines() if "raises an exception" in line)
    assert "azure_like / azure_like" in line
    assert "/ LOW, step 31 (" in line
    assert "decide() raised RuntimeError: <b>late</b> (mine.py, line 4) [raises, in 6 cells]" in line
    assert "&lt;b&gt;late&lt;/b&gt;" in card
    assert "<b>late" not in card
    assert "0 of 6 cells came to an end" in printed


def test_a_process_that_ends_is_told(evaluate):
    text = (
        "import os\nfrom servestudy.schedulers.protocol import Scheduler\nclass Crashes(Scheduler):\n"
        "    def decide(self, view):\n        os._exit(3)\n"
    )
    options = ["--model", "published", "--regions", "LOW", "--windows", "1", "--processes", "2"]
    status, printed, card = evaluate(text, "Crashes", *options)
    assert (status, card) == (1, "")
    assert "Crashes: a process ended in the middle of a cell; does the scheduler exit, crash" in printed


def test_the_rest_is_left_out_after_three_cells_without_an_end(evaluate):
    text = (
        "from servestudy.schedulers.protocol import Scheduler\nclass Loops(Scheduler):\n"
        "    def decide(self, view):\n        while True: pass\n"
    )
    _, printed, _ = evaluate(text, "Loops", "--model", "published", "--limit-s", "0.02")
    assert "0 of 36 cells came to an end" in printed
    assert "33 cells were not begun" in printed
    assert "[never_returns, in 3 cells]" in printed


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("class A(:\n", "A", r"mine.py, line 1: not Python: invalid syntax"),
        ("import no_such_module\n", "A", r"cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("exit()\n", "A", r"mine.py: the file cannot be imported: SystemExit"),
        ("class A: pass\n", "A", r"A is not a Scheduler; write `class A\(Scheduler\)`"),
        ("A = 3\n", "A", r"A is not a Scheduler"),
        ("BASE\nclass B(Scheduler):\n    def decide(self, view): pass\n", "A", r"no class A; schedulers in it: B"),
        ("BASE\nclass A(Scheduler): pass\n", "A", r"A has no method decide\(self, view\)"),
        (
            "BASE\nclass A(Scheduler):\n    def __init__(self, k): pass\n    def decide(self, view): pass\n",
            "A",
            r"A\(\) fails: TypeError: .*give every parameter a default",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_clear_line(evaluate, text, name, message, request):
    text = text.replace("BASE", "from servestudy.schedulers.protocol import Scheduler")
    status, printed, card = evaluate(text, name)
    assert status == 1
    assert re.search(message, printed)
    assert len(printed.strip().splitlines()) == 1
    assert card == ""


@pytest.mark.parametrize("place", ["mine.py", "mine:Mine", "mine.py:", "mine.py:a-b"])
def test_a_place_of_another_form_is_refused(place):
    with pytest.raises(UserError, match=r"give the file and the class .*my_scheduler.py:MyScheduler"):
        scheduler_from_file(place)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent\.py: not found"):
        scheduler_from_file(f"{tmp_path}/absent.py:Mine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--run", "other"], "results/other/windows: no windows; make them with"),
        (["--sources", "mooncake"], "source 'mooncake' has no windows .* it has azure_like, burstgpt_like"),
        (["--regions", "NEE"], "region 'NEE' is unknown"),
        (["--model", "serving", "--set", "laxity_units=seconds"], "changes a rule of the published model"),
    ],
)
def test_what_the_run_lacks_is_named(evaluate, options, message):
    status, printed, _ = evaluate(inspect.getsource(published_edf), "Edf", *options)
    assert status == 1
    assert re.search(message, printed)


def test_cells_of_other_rules_are_noticed(evaluate):
    """Those of the run are of the model as published."""
    options = ["--model", "published", "--set", "load_divides_slack=gaps_only"]
    status, printed, _ = evaluate(inspect.getsource(published_edf), "Edf", *options)
    assert status == 1
    assert "its cells are not what this version simulates" in printed


def test_missing_cells_are_told_with_the_way_out(evaluate, small_run, tmp_path, monkeypatch):
    run = tmp_path / "results/bare"
    for part in ("windows", "calibration"):
        (run / part).parent.mkdir(parents=True, exist_ok=True)
        (run / part).symlink_to(small_run / "results/small" / part)
    monkeypatch.chdir(tmp_path)
    options = ["--run", "bare", "--model", "published"]
    status, printed, _ = evaluate(inspect.getsource(published_edf), "Edf", *options)
    assert status == 1
    assert re.search("no scheduler has cells of all of azure_like, burstgpt_like; .*snakemake cells.*--fresh", printed)


def test_rank_counts_better_and_half_of_equal_ones():
    means = np.array([[3.0, 1.0, 2.0], [2.0, 1.0, np.nan], [1.0, 1.0, 5.0], [np.nan, 9.0, 1.0]])
    goodput = "arrival_normalized_weighted_goodput"
    assert rank_of(means, 0, goodput).tolist() == [1, 3, 2]
    assert rank_of(means, 0, "mean_latency").tolist() == [3, 2, 2]
    assert rank_of(means, 1, goodput).tolist()[:2] == [2, 3]
    assert np.isnan(rank_of(means, 1, goodput)[2])


def values_of(sides):
    """Values of one region and metric from {source: {scheduler: [value a window]}}."""
    schedulers = tuple(next(iter(sides.values())))
    arrays = {source: np.array([[list(rows.values())]]) for source, rows in sides.items()}
    windows = {source: tuple(f"{source}{i}" for i in range(array.shape[-1])) for source, array in arrays.items()}
    return WindowValues(tuple(sides), ("KNEE",), ("arrival_normalized_weighted_goodput",), schedulers, windows, arrays)


STEADY = {
    "x": {"mine": [0.9, 0.92, 0.91], "a": [0.5, 0.52, 0.51], "b": [0.3, 0.31, 0.32]},
    "y": {"mine": [0.2, 0.21, 0.22], "a": [0.5, 0.52, 0.51], "b": [0.3, 0.31, 0.32]},
}


def test_comparison_of_a_made_case():
    """`mine` leads in x and is last in y: the panel without it agrees fully, with it one pair of three does."""
    comparison = compare_with_panel(values_of(STEADY), "mine")
    assert comparison.ranks["rank"].tolist() == [1, 3]
    assert comparison.ranks[["rank_low", "rank_high"]].to_numpy().tolist() == [[1, 1], [3, 3]]
    (tau,) = comparison.tau.to_dict("records")
    assert (tau["tau_without"], tau["tau_with"]) == (1.0, pytest.approx(-1 / 3))
    assert (tau["change_low"], tau["change_high"]) == (pytest.approx(-4 / 3), pytest.approx(-4 / 3))
    assert set(comparison.reversals["reversal_class"]) == {"SUPPORTED_PRACTICAL_REVERSAL"}
    duels = comparison.duels.set_index(["source", "opponent"])["result"]
    assert duels.to_dict() == {("x", "a"): 1, ("x", "b"): 1, ("y", "a"): -1, ("y", "b"): -1}


def test_a_scheduler_without_values_has_no_rank():
    values = values_of({source: rows | {"mine": [np.nan] * 3} for source, rows in STEADY.items()})
    comparison = compare_with_panel(values, "mine")
    assert comparison.ranks["rank"].isna().all()
    assert (comparison.duels["result"] == 0).all()


def test_the_order_of_the_panel_decides_nothing():
    """Draws have names: a subset of the sources has the same intervals."""
    values = values_of(STEADY)
    alone = replace(values, sources=("y",))
    first, second = (compare_with_panel(v, "mine").ranks.query("source == 'y'") for v in (values, alone))
    assert first.to_numpy().tolist() == second.to_numpy().tolist()

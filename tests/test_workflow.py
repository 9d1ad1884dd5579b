"""The whole workflow in a copy of the project: runs, reruns, edits, kills.

One smoke run is shared by the tests that only look at it; part of it is made again and killed on its way.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from project_copy import NOTHING, SNAKEMAKE, copy_of, environment, planned, snakemake
from traced_run import report_of, traced_rows, untrue

from servestudy.items import FIGURE, ITEMS
from servestudy.model_names import models_read
from servestudy.notebook import drawn, open_run
from servestudy.plotting.registry import AUDIT_FIGURES, FIGURES, TIER_FIGURES
from servestudy.schedulers.registry import schedulers_of
from servestudy.spotcheck.registry import FIGURES as SPOTCHECK_FIGURES
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES
from servestudy.tabulation.registry import AUDIT_TABLES, TABLES, TIER_TABLES, WINDOW_INDEX

SMOKE = ("--configfile", "config/smoke.yaml", "--config", "windows={stage0: 1, extension: 1}")
"""The smoke run with half its windows, which halves the time of these tests and leaves all jobs in."""
SIMULATED = ("cells", "results/smoke/tables/portability/tau_by_region.csv")
"""Targets: the simulation stage, and a table at the other end of the workflow."""
CELL_FILES = 3 * (len(schedulers_of("published")) + len(schedulers_of("serving")))
NOTEBOOKS = 6
UNDISTURBED = ("bailian_like", "burstgpt_like")
"""The sources whose part of the run is made once; that of the third is made again, on one core and with a kill."""


def outputs(folder: Path) -> dict[str, bytes]:
    """Path -> content of all results, without logs and running times."""
    results = folder / "results"
    files = [path for path in results.rglob("*") if path.is_file()]
    return {
        path.relative_to(results).as_posix(): path.read_bytes()
        for path in files
        if not {"logs", "benchmarks"} & set(path.relative_to(results).parts)
    }


@pytest.fixture(scope="module")
def finished(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with a complete smoke run, made on two cores. For reading, or to be put back."""
    folder = copy_of(project, tmp_path_factory.mktemp("finished") / "project")
    result = snakemake(folder, "--cores", "2", *SMOKE)
    assert result.returncode == 0, result.stdout
    return folder


@pytest.fixture(scope="module")
def restarted(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run without all that a source has a part in, from its raw trace to the tables.

    Made again on one core, killed among the simulations and started once more. So every stage and every scheduler runs
    again, but not for every source.
    """
    folder = tmp_path_factory.mktemp("restarted") / "project"
    shutil.copytree(finished, folder)
    for path in [*(folder / "results").rglob("*"), *(folder / "data/raw").rglob("*")]:
        if path.is_file() and not any(source in path.as_posix() for source in UNDISTURBED):
            path.unlink()
    log = folder / "killed.log"
    with log.open("w") as file:
        run = subprocess.Popen(
            [SNAKEMAKE, *SIMULATED, "--cores", "1", *SMOKE],
            cwd=folder,
            env=environment(folder),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        cells = folder / "results/smoke/cells/published/azure_like"
        end = time.monotonic() + 200
        while len(list(cells.glob("*.parquet"))) < 3:
            assert run.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert list((folder / ".snakemake/locks").iterdir()), "it was killed while it ran"
    assert not (folder / "results/smoke/manifest.json").exists()

    result = snakemake(folder, *SIMULATED, "--cores", "1", *SMOKE)
    assert result.returncode == 0, result.stdout
    assert "the last run was killed: removed its lock" in result.stdout
    return folder


# A complete run


def test_a_run_makes_its_figure_and_table_in_its_own_folder(finished):
    made = outputs(finished)
    assert {
        "smoke/manifest.json",
        "smoke/windows/index.csv",
        "smoke/figures/portability/tau_heatmap.svg",
        "smoke/figures/portability/tau_heatmap.pdf",
        "smoke/tables/portability/tau_by_region.csv",
    } <= made.keys()
    assert len([name for name in made if name.startswith("smoke/cells/")]) == CELL_FILES
    assert not any(name.endswith(".part") for name in made)
    assert not (finished / "figures").exists(), "only the default run publishes there"
    assert not (finished / "tables").exists()


def test_figure_and_table_say_that_the_traces_are_synthetic(finished):
    title = "embedded traces (synthetic), smoke run"
    made = outputs(finished)
    assert title.encode() in made["smoke/tables/portability/tau_by_region.csv"]
    assert title.encode() in made["smoke/figures/portability/tau_heatmap.svg"]


def test_every_job_leaves_a_log_and_every_computing_one_its_running_time(finished):
    run = finished / "results/smoke"
    assert len(list((run / "logs/simulate_cells").rglob("*.log"))) == CELL_FILES
    assert len(list((run / "benchmarks/simulate_cells").rglob("*.tsv"))) == CELL_FILES


def test_notebooks_draw_again_what_the_run_drew_and_simulate_what_it_simulated(finished):
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (finished / "results/smoke/notebooks").iterdir()}
    assert len(pages) == NOTEBOOKS
    assert all("Run smoke: embedded traces (synthetic), smoke run" in page for page in pages.values())
    assert [name for name, page in pages.items() if "<li>The two are the same, byte for byte.</li>" not in page] == [
        "02_one_cell"
    ]
    assert pages["02_one_cell"].count(">True</td>") == 4
    assert ">False</td>" not in pages["02_one_cell"]
    assert not [name for name, page in pages.items() if re.search(r"<(script|link)\b|(src|href)=.?https?:", page)]


def test_every_figure_drawn_in_a_notebook_is_that_of_the_run(finished):
    run = open_run("smoke", finished)
    figures = [run.figure(name) for kind, name in ITEMS if kind == FIGURE]
    again = [drawn(import_module(figure.item.module).draw(figure.tables, figure.context)) for figure in figures]
    assert [figure for figure, other in zip(figures, again, strict=True) if figure.image != other.image] == []


def test_notebooks_run_as_tests_from_their_own_folder(finished):
    before = outputs(finished)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbmake", "--quiet", "-p", "no:cacheprovider", "."],
        cwd=finished / "notebooks",
        env=environment(finished, SERVESTUDY_RUN="smoke"),
        capture_output=True,
        text=True,
    )
    assert f"{NOTEBOOKS} passed" in result.stdout, result.stdout
    assert outputs(finished) == before


def test_another_execution_of_a_notebook_gives_the_same_bytes(finished, tmp_path):
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "servestudy.cli", "notebook", "notebooks/02_one_cell.ipynb", "--run", "smoke"]
    subprocess.run([*command, "--out", page], cwd=finished, env=environment(finished), check=True)
    assert page.read_bytes() == (finished / "results/smoke/notebooks/02_one_cell.html").read_bytes()


def test_a_deleted_figure_is_drawn_and_shown_again(finished):
    path = finished / "results/smoke/figures/tiers/per_tier.svg"
    content, times = path.read_bytes(), path.stat()
    path.unlink()
    try:
        jobs = {"draw_tier_figure": 1, "execute_notebook": 1, "write_manifest": 1}
        assert planned(finished, *SMOKE) == jobs | EXPLAINED
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_the_paper_is_typeset_from_the_run(finished):
    assert (finished / "results/smoke/paper/paper.pdf").read_bytes().startswith(b"%PDF-")
    assert not (finished / "paper/paper.pdf").exists(), "only the default run publishes there"


def test_edited_text_typesets_the_paper_and_nothing_else(finished):
    path = finished / "paper/sections/limitations.typ"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(f"{before}\nA sentence more.\n", encoding="utf-8")
        assert planned(finished, *SMOKE) == EXPLAINED
    finally:
        path.write_text(before, encoding="utf-8")


def test_every_figure_and_table_has_a_row_that_is_true(finished):
    run = finished / "results/smoke"
    rows = traced_rows(run)
    made = [path for folder in ("figures", "tables") for path in (run / folder).rglob("*") if path.is_file()]
    assert sorted(row["file"] for row in rows) == sorted(path.relative_to(finished).as_posix() for path in made)
    assert {(row["kind"], row["item"]) for row in rows} == ITEMS.keys()
    assert [problem for row in rows for problem in untrue(finished, row)] == []
    assert all(row["notebook"] for row in rows)


def test_the_commands_of_the_rows_make_the_same_files(finished, tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(finished, folder)
    one_of_each_rule = {row["rule"]: row for row in traced_rows(folder / "results/smoke")}
    commands = [shlex.split(row["command"]) for row in one_of_each_rule.values()]
    before = {row["file"]: (folder / row["file"]).read_bytes() for row in one_of_each_rule.values()}
    for path in before:
        (folder / path).unlink()
    first, *others = commands
    assert {tuple(command[2:]) for command in commands} == {("--cores", "2", *first[4:])}
    for targets in ([first[1]], [command[1] for command in others]):  # one alone, then the others in one go
        result = snakemake(folder, *targets, *first[2:])
        assert result.returncode == 0, result.stdout
    assert [path for path, content in before.items() if (folder / path).read_bytes() != content] == []


def test_the_report_shows_figures_tables_notebooks_and_paper_without_a_network(finished, tmp_path):
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    result = snakemake(finished, "--report", str(tmp_path / "report.zip"), *SMOKE, **nowhere)
    assert result.returncode == 0, result.stdout
    shown = report_of(tmp_path / "report.zip")
    run = finished / "results/smoke"
    expected = [
        *run.glob("figures/**/*.svg"),
        *run.glob("report/**/*.html"),
        *run.glob("notebooks/*.html"),
        run / "paper/paper.pdf",
    ]
    assert sorted(shown) == sorted(path.relative_to(finished).as_posix() for path in expected)
    assert all(entry["held"] and entry["caption"] and entry["labels"] for entry in shown.values())
    assert min(entry["category"] for entry in shown.values()) == "1 Claims"
    claims = [path for path, entry in shown.items() if entry["category"] == "1 Claims"]
    assert sorted(Path(path).stem for path in claims) == ["claims", "claims_of_tiers"]


def test_second_run_has_nothing_to_do(finished):
    result = snakemake(finished, "--cores", "2", *SMOKE)
    assert result.returncode == 0
    assert NOTHING in result.stdout


def test_one_core_two_cores_and_a_kill_in_between_make_no_difference(finished, restarted):
    undisturbed, other = outputs(finished), outputs(restarted)
    cells = [name for name in undisturbed if name.startswith("smoke/cells/")]
    assert len(cells) == CELL_FILES
    assert set(cells) <= other.keys() <= undisturbed.keys()
    assert "smoke/tables/portability/tau_by_region.csv" in other
    assert [name for name in other if other[name] != undisturbed[name]] == []


# What reruns, and what does not

# Of any figure or table: the list of what makes what, and the paper that prints it.
EXPLAINED = {"write_traceability": 1, "write_table_pages": 1, "typeset_paper": 1}
# Of cells of either model.
DOWNSTREAM = {
    **EXPLAINED,
    "write_paper_values": 1,
    "analyse_spotcheck": 1,
    "draw_spotcheck_figure": len(SPOTCHECK_FIGURES),
    "write_spotcheck_tables": 1,
    "evaluate_claims": 1,
    "execute_notebook": 4,  # all but those of the traces and of the tiers
    "write_manifest": 1,
}
OF_BOTH_MODELS = [item for item in AUDIT_FIGURES.values() if "serving" in models_read(item.reads)]
DOWNSTREAM_OF_SERVING = {
    **DOWNSTREAM,
    "analyse_cells": len(ANALYSES),
    "draw_audit_figure": len(OF_BOTH_MODELS),
    "write_audit_table": len([item for item in AUDIT_TABLES.values() if "serving" in models_read(item.reads)]),
    "write_table": 1,  # the claims
}
DOWNSTREAM_OF_PUBLISHED = {
    **DOWNSTREAM,
    "simulate_slo": 3,
    "analyse_cells": len(ANALYSES),
    "analyse_variants": len(VARIANT_ANALYSES),
    "draw_figure": len([item for item in FIGURES.values() if (ANALYSES | VARIANT_ANALYSES).keys() & item.reads.keys()]),
    "write_table": len([table for table in TABLES.values() if WINDOW_INDEX not in table.reads]),
    "analyse_audit": 1,
    "draw_audit_figure": len(AUDIT_FIGURES),
    "write_audit_table": len(AUDIT_TABLES),
}
TIERS = {
    "simulate_tiers": 12,
    "analyse_tiers": 2,
    "list_tier_requests": 1,
    "record_tier_timeline": 1,
    "draw_tier_figure": len(TIER_FIGURES),
    "write_tier_table": len(TIER_TABLES),
    "evaluate_tier_claims": 1,
}


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        (
            "schedulers/published/slai_faithful.py",
            {"simulate_cells": 3, "simulate_window_sizes": 3, "simulate_ablation": 6, **DOWNSTREAM_OF_PUBLISHED},
        ),
        ("schedulers/serving/slai_faithful.py", {"simulate_cells": 3, **DOWNSTREAM_OF_SERVING}),
        (
            "engine/iteration.py",
            {"calibrate_windows": 3, "simulate_cells": 48, **DOWNSTREAM_OF_SERVING, **TIERS, "execute_notebook": 5},
        ),
        ("plotting/tau_heatmap.py", {"draw_figure": 1, "execute_notebook": 1, "write_manifest": 1, **EXPLAINED}),
        ("errors.py", {}),
    ],
)
def test_edited_code_reruns_its_own_stage(finished, edited, expected):
    path = finished / "src/servestudy" / edited
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n# edited\n")
        assert planned(finished, *SMOKE) == expected
    finally:
        path.write_bytes(before)


def test_files_with_a_new_time_but_the_old_content_rerun_nothing(finished):
    for path in [*(finished / "src").rglob("*.py"), *(finished / "data/raw").rglob("*.*")]:
        path.touch()
    assert planned(finished, *SMOKE) == {}


def test_changed_title_redraws_only(finished):
    changed = planned(finished, *SMOKE, "title=synthetic again")
    assert changed == {
        "draw_figure": len(FIGURES),
        "draw_audit_figure": len(AUDIT_FIGURES),
        "evaluate_claims": 1,
        "write_table": len(TABLES),
        "write_audit_table": len(AUDIT_TABLES),
        "execute_notebook": NOTEBOOKS,
        "write_manifest": 1,
        "write_paper_values": 1,
        **EXPLAINED,
    }


def test_other_facts_about_a_source_rewrite_their_table_only(finished):
    path = finished / "config/sources.tsv"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(before.replace("servestudy, embedded traces", "servestudy, made traces"), encoding="utf-8")
        assert path.read_text(encoding="utf-8") != before
        jobs = {"write_table": 1, "execute_notebook": NOTEBOOKS, "write_manifest": 1, "write_paper_values": 1}
        assert planned(finished, *SMOKE) == jobs | EXPLAINED
    finally:
        path.write_text(before, encoding="utf-8")


def test_raw_traces_are_shared_by_runs(finished):
    jobs = planned(finished)
    assert jobs["simulate_cells"] == CELL_FILES
    assert "synthesize_trace" not in jobs


def test_one_figure_by_name_makes_only_what_it_needs(finished):
    jobs = planned(finished, "figures/portability/tau_heatmap.svg")
    assert jobs["draw_figure"] == 1
    assert not {"write_table", "index_windows", "write_manifest"} & jobs.keys()


def test_named_targets(finished):
    assert planned(finished, "cells", "statistics", "figures", "tables", *SMOKE) == {}

"""The whole workflow in a copy of the project: runs, reruns, edits, kills.

One smoke run is shared by the tests that only look at it; part of it is made again and killed on its way.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from project_copy import NOTHING, SNAKEMAKE, copy_of, environment, planned, snakemake

from servestudy.model_names import models_read
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

# Of cells of either model.
DOWNSTREAM = {
    "analyse_spotcheck": 1,
    "draw_spotcheck_figure": len(SPOTCHECK_FIGURES),
    "write_spotcheck_tables": 1,
    "evaluate_claims": 1,
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
    "simulate_tiers": 11,
    "analyse_tiers": 2,
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
            {"calibrate_windows": 3, "simulate_cells": 48, **DOWNSTREAM_OF_SERVING, **TIERS},
        ),
        ("plotting/tau_heatmap.py", {"draw_figure": 1, "write_manifest": 1}),
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
        "write_manifest": 1,
    }


def test_other_facts_about_a_source_rewrite_their_table_only(finished):
    path = finished / "config/sources.tsv"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(before.replace("servestudy, embedded traces", "servestudy, made traces"), encoding="utf-8")
        assert path.read_text(encoding="utf-8") != before
        assert planned(finished, *SMOKE) == {"write_table": 1, "write_manifest": 1}
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

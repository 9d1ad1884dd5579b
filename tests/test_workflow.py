"""The whole workflow in a copy of the project: runs, reruns, edits, kills, mistakes.

One smoke run is shared by the tests that only look at it; a second one is killed on its way.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servestudy.plotting.registry import FIGURES
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES
from servestudy.tabulation.registry import TABLES, WINDOW_INDEX
from servestudy.traces.registry import load_sources

SNAKEMAKE = Path(sys.executable).with_name("snakemake")
NEEDED = ("Snakefile", "claims", "config", "workflow", "profiles", "src", "environment.yml")
SMOKE = ("--configfile", "config/smoke.yaml", "--config", "windows={stage0: 1, extension: 1}")
"""The smoke run with half its windows, which halves the time of these tests and leaves all jobs in."""
SIMULATED = ("cells", "results/smoke/tables/portability/tau_by_region.csv")
"""Targets: the simulation stage, and a table at the other end of the workflow."""

NOTHING = "Nothing to be done"


def copy_of(project: Path, folder: Path) -> Path:
    """What the workflow needs of the project, nothing else: no results, no Git."""
    folder.mkdir()
    for name in NEEDED:
        if (project / name).is_dir():
            shutil.copytree(project / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(project / name, folder)
    return folder


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Makes the copy's own package the one that runs."""
    inherited = {name: value for name, value in os.environ.items() if name != "SERVESTUDY_TRACE_MIRROR"}
    return {**inherited, "PYTHONPATH": str(folder / "src"), **variables}


def snakemake(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [SNAKEMAKE, *arguments],
        cwd=folder,
        env=environment(folder, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """Rule -> number of jobs that a run would do."""
    result = snakemake(folder, *arguments, "--dry-run")
    assert result.returncode == 0, result.stdout
    if NOTHING in result.stdout:
        return {}
    table = re.search(r"Job stats:\n.*\n-+ .*\n((?:\w+ +\d+\n)+)", result.stdout).group(1)
    jobs = {rule: int(count) for rule, count in (line.split() for line in table.splitlines())}
    return {rule: count for rule, count in jobs.items() if rule not in ("all", "total")}


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
def restarted(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose smoke run was killed among the simulations and started again, on one core."""
    folder = copy_of(project, tmp_path_factory.mktemp("restarted") / "project")
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
        cells = folder / "results/smoke/cells"
        end = time.monotonic() + 200
        while len(list(cells.rglob("*.parquet"))) < 3:
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
    assert len([name for name in made if name.startswith("smoke/cells/published/")]) == 3 * 13
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
    assert len(list((run / "logs/simulate_cells").rglob("*.log"))) == 3 * 13
    assert len(list((run / "benchmarks/simulate_cells").rglob("*.tsv"))) == 3 * 13


def test_second_run_has_nothing_to_do(finished):
    result = snakemake(finished, "--cores", "2", *SMOKE)
    assert result.returncode == 0
    assert NOTHING in result.stdout


def test_one_core_two_cores_and_a_kill_in_between_make_no_difference(finished, restarted):
    undisturbed, other = outputs(finished), outputs(restarted)
    cells = [name for name in undisturbed if name.startswith("smoke/cells/")]
    assert len(cells) == 3 * 13
    assert set(cells) <= other.keys() <= undisturbed.keys()
    assert "smoke/tables/portability/tau_by_region.csv" in other
    assert [name for name in other if other[name] != undisturbed[name]] == []


# What reruns, and what does not

DOWNSTREAM_OF_CELLS = {
    "simulate_slo": 3,
    "analyse_cells": len(ANALYSES),
    "analyse_variants": len(VARIANT_ANALYSES),
    "draw_figure": len([figure for figure in FIGURES.values() if ANALYSES.keys() & figure.reads.keys()]),
    "evaluate_claims": 1,
    "write_table": len([table for table in TABLES.values() if WINDOW_INDEX not in table.reads]),
    "write_manifest": 1,
}


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        (
            "schedulers/published/slai_faithful.py",
            {"simulate_cells": 3, "simulate_window_sizes": 3, **DOWNSTREAM_OF_CELLS},
        ),
        (
            "engine/fixed_step.py",
            {"calibrate_windows": 3, "simulate_cells": 39, "simulate_window_sizes": 3, **DOWNSTREAM_OF_CELLS},
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
        "evaluate_claims": 1,
        "write_table": len(TABLES),
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
    assert jobs["simulate_cells"] == 39
    assert "synthesize_trace" not in jobs


def test_one_figure_by_name_makes_only_what_it_needs(finished):
    jobs = planned(finished, "figures/portability/tau_heatmap.svg")
    assert jobs["draw_figure"] == 1
    assert not {"write_table", "index_windows", "write_manifest"} & jobs.keys()


def test_named_targets(finished):
    assert planned(finished, "cells", "statistics", "figures", "tables", *SMOKE) == {}


# Mistakes


def test_a_config_with_three_mistakes_prints_three_lines(finished):
    mistakes = "run: mine\nwindws: {stage0: 2}\nrepetitions: 0\nschedulers: [fifo, edff]\n"
    (finished / "mine.yaml").write_text(mistakes)
    result = subprocess.run(
        [SNAKEMAKE, "--cores", "1", "--configfile", "mine.yaml"],
        cwd=finished,
        env=environment(finished),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [  # the first line is Snakemake's, about the profile
        'mine.yaml: windws: unknown key "windws"; did you mean windows?',
        "mine.yaml: repetitions: found 0; allowed: a whole number, 1 or more",
        'mine.yaml: schedulers[1]: unknown name "edff"; did you mean edf? (config/schedulers.yaml)',
    ]


def test_broken_default_config_is_named_with_its_line(project, tmp_path):
    folder = copy_of(project, tmp_path / "project")
    (folder / "config/config.yaml").write_text("run: embedded\nsources: [a\nmodels: [b]\n")
    result = snakemake(folder, "--cores", "1")
    assert result.returncode == 1
    assert "config/config.yaml: line 3: not valid YAML" in result.stdout
    assert "Traceback" not in result.stdout


def test_failed_job_shows_its_log(project, tmp_path):
    folder = copy_of(project, tmp_path / "project")
    (folder / "mirror/azure_2023").mkdir(parents=True)
    (folder / "mirror/azure_2023/AzureLLMInferenceTrace_code.csv").write_text("wrong\n")
    target = "data/raw/azure_2023/79092101/AzureLLMInferenceTrace_code.csv"
    result = snakemake(folder, target, "--cores", "1", SERVESTUDY_TRACE_MIRROR="mirror")
    assert result.returncode == 1
    assert "it has 6 bytes, the registry states 320117" in result.stdout
    assert not (folder / target).exists()


# The mirror of raw traces


@pytest.mark.parametrize("how", ["environment", "config"])
def test_mirror_may_be_a_relative_path(project, shared, tmp_path, how):
    folder = copy_of(project, tmp_path / "project")
    (tmp_path / "mirror").symlink_to(shared / "traces")
    target = "data/raw/azure_2023/79092101/AzureLLMInferenceTrace_code.csv"
    arguments = ["--config", "traces={mirror: ../mirror}"] if how == "config" else []
    variables = {"SERVESTUDY_TRACE_MIRROR": "../mirror"} if how == "environment" else {}
    result = snakemake(folder, target, "--cores", "1", *arguments, **variables)
    assert result.returncode == 0, result.stdout
    original = shared / "traces/azure_2023/AzureLLMInferenceTrace_code.csv"
    assert (folder / target).read_bytes() == original.read_bytes()
    assert planned(folder, target) == {}, "where a file came from is no reason to get it again"


def test_a_verified_raw_trace_is_not_deleted_to_be_fetched_again(project, shared, tmp_path):
    folder = copy_of(project, tmp_path / "forced")
    source = load_sources(project / "config/sources.tsv")["azure_2023_conv"]
    trace = source.raw_path("data/raw")
    (folder / trace).parent.mkdir(parents=True)
    shutil.copy(source.mirror_path(shared / "traces"), folder / trace)
    call = (trace.as_posix(), "-f", "--cores", "1", "--configfile", "config/real.yaml")
    assert snakemake(folder, *call).returncode == 0  # no mirror, and no need of a network
    (folder / trace).write_text("not the trace")
    assert snakemake(folder, *call).returncode == 1
    assert (folder / trace).read_text() == "not the trace"  # named in the message, left alone

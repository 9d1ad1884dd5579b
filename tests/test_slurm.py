"""The profile for Slurm: its names are the workflow's, and the smoke run passes through a real Slurm of one node."""

import json
import os
import re
import subprocess
import time

import pytest
import yaml
from made_slurm import missing, slurm
from project_copy import SNAKEMAKE, copy_of, environment, snakemake

SMOKE = ("results/smoke/manifest.json", "--configfile", "config/smoke.yaml")
NO_ACCOUNTING = ("--slurm-status-command", "squeue", "--slurm-no-account")
SOON = ("--seconds-between-status-checks", "2", "--slurm-init-seconds-before-status-checks", "2")
LIMIT_S = 2400
FEWER = 3
"""So many jobs of the workflow a Slurm job, at least: a queue must not be flooded."""


@pytest.fixture(scope="module")
def profile(project) -> dict:
    return yaml.safe_load((project / "profiles/slurm/config.yaml").read_text(encoding="utf-8"))


def run(folder, *options: str, **variables: str) -> str:
    """The smoke run up to its manifest; returns what Snakemake told."""
    log = folder.with_name(f"{folder.name}.log")
    with log.open("w") as file:
        result = subprocess.run(
            [SNAKEMAKE, *SMOKE, *options],
            cwd=folder,
            env=environment(folder, **variables),
            stdout=file,
            stderr=file,
            timeout=LIMIT_S,
        )
    told = log.read_text()
    assert result.returncode == 0, told[-8000:]
    return told


def test_the_profile_names_rules_and_groups_that_there_are(project, profile, tmp_path):
    result = snakemake(copy_of(project, tmp_path / "project"), "--list-rules")
    assert result.returncode == 0, result.stdout
    rules = set(result.stdout.split())
    for key in ("groups", "set-resources", "set-threads"):
        assert profile[key].keys() <= rules, key
    assert profile["group-components"].keys() <= set(profile["groups"].values())


def test_the_profile_repeats_the_default_one_in_whose_place_it_is_read(project, profile):
    default = yaml.safe_load((project / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    for key in ("scheduler", "max-jobs-per-timespan", "rerun-incomplete", "max-checksum-file-size", "quiet"):
        assert profile[key] == default[key]


def test_the_smoke_run_passes_through_slurm(project, tmp_path, state_fact):
    lacking = missing()
    if lacking:
        reason = f"Slurm for tests: {', '.join(lacking)} missing (docs/SLURM.md)"
        state_fact(f"NOT CHECKED: profiles/slurm. {reason}")
        pytest.skip(reason)
    here = copy_of(project, tmp_path / "here")
    there = copy_of(project, tmp_path / "there")
    told = run(here, "--cores", "2")
    assert "has been submitted" not in told

    start = time.monotonic()
    with slurm(tmp_path / "slurm", cpus=2) as variables:
        told = run(there, "--workflow-profile", "profiles/slurm", *NO_ACCOUNTING, *SOON, **variables)
    seconds = time.monotonic() - start

    manifests = [json.loads((folder / "results/smoke/manifest.json").read_text()) for folder in (here, there)]
    assert manifests[0] == manifests[1]
    submitted = told.count("has been submitted with SLURM jobid")
    jobs = int(re.search(r"^total +(\d+)$", told, re.MULTILINE).group(1))
    assert FEWER * submitted <= jobs
    state_fact(
        f"Slurm: the smoke run, {jobs} jobs in {submitted} Slurm jobs, {seconds:.0f} s on {os.cpu_count()} cores"
    )

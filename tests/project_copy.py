"""A copy of the project in which tests may run, edit, kill and misconfigure the workflow."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SNAKEMAKE = Path(sys.executable).with_name("snakemake")
NEEDED = (
    "Snakefile",
    "claims",
    "config",
    "data/spotcheck",
    "notebooks",
    "paper",
    "CITATION.cff",
    "LICENSE",
    "workflow",
    "profiles",
    "src",
    "environment.yml",
)
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "paper.pdf")
NOTHING = "Nothing to be done"


def copy_of(project: Path, folder: Path) -> Path:
    """What the workflow needs of the project, nothing else: no results, no Git."""
    folder.mkdir()
    for name in NEEDED:
        if (project / name).is_dir():
            shutil.copytree(project / name, folder / name, ignore=LEFT_OUT)
        else:
            shutil.copy(project / name, folder)
    return folder


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Makes the copy's own package the one that runs, compiled once for its hundred jobs."""
    dropped = ("SERVESTUDY_TRACE_MIRROR", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if name not in dropped}
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

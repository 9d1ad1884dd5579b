"""One workflow run at a time in a folder, and a way on after a killed one.

Snakemake locks its folder too, but its message does not tell a killed run from a living one, and leaves
the clean-up to the user. So the process that runs the workflow leaves a record of itself beside the locks.
"""

import fcntl
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from servestudy.errors import UserError
from servestudy.files import atomic_path

RECORD = "servestudy_run.json"
JOB_MARK = "SERVESTUDY_RUN"
"""Environment variable that a run hands down to its jobs, so that they are known if they outlive it."""

SAME_START_S = 2.0
"""Start times of one process differ by less, even if the system's clock was corrected in between."""

WITHOUT_JOBS = re.compile(
    r"-[lDS]$|--(archive|cleanup-|conda-(cleanup-envs|create-envs-only)|container(ize|-cleanup-images)|d3dag|dag|delete-"
    r"|detailed-summary|export-cwl|filegraph|generate-unit-tests|lint|list|lt|nolock|print-compilation|report|rulegraph"
    r"|summary|unlock)"
)
"""Options with which Snakemake runs no job (or, with --nolock, wants no lock). Not --dry-run, whose short form can be
joined with others: Snakemake's own setting tells it."""


def runs_jobs(arguments: Sequence[str]) -> bool:
    """Does a call of Snakemake with these command-line arguments run jobs under a lock?"""
    return "--report-after-run" in arguments or not any(map(WITHOUT_JOBS.match, arguments))


def claim_run(folder: Path | str = ".snakemake") -> None:
    """Record this process as the one that runs the workflow in Snakemake's `folder`.

    Locks and jobs that a killed run of this machine left behind are removed, and a line on stderr says so.
    Raises UserError if another run is active here, or if that cannot be told.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    with (folder / "servestudy_claim").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)  # two starts at the same moment: one after the other
        _claim(folder)


def _claim(folder: Path) -> None:
    locks = folder / "locks"
    locked = locks.is_dir() and any(locks.iterdir())
    record = _read(folder / RECORD)
    if record and record["host"] == platform.node():
        if record["pid"] != os.getpid() and _lives(record):
            raise UserError(
                f"another run (process {record['pid']}) is active in this folder: "
                f"wait for it, or stop it with `kill {record['pid']}`"
            )
        jobs = _stop_jobs_of(record)
        if locked:
            shutil.rmtree(locks)
            locks.mkdir()
        if locked or jobs:
            also = f" and {jobs} job(s) that it left running" if jobs else ""
            print(f"the last run was killed: removed its lock{also}, going on where it stopped", file=sys.stderr)
    elif locked:
        place = f"machine {record['host']}" if record else "another run"
        raise UserError(
            f"this folder is locked by {place}: if nothing runs there any more, "
            "call `snakemake --unlock` and start again"
        )
    own = psutil.Process()
    with atomic_path(folder / RECORD) as part:
        record = {"host": platform.node(), "pid": own.pid, "started_s": own.create_time()}
        part.write_text(json.dumps(record) + "\n")
    os.environ[JOB_MARK] = _mark(record)


def _read(path: Path) -> dict | None:
    """The record of the last run; None if there is none, or none that can be read."""
    try:
        record = json.loads(path.read_text())
        return {
            "host": str(record["host"]),
            "pid": int(record["pid"]),
            "started_s": float(record["started_s"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _lives(record: dict) -> bool:
    try:
        process = psutil.Process(record["pid"])
        started_s = process.create_time()
        return process.status() != psutil.STATUS_ZOMBIE and abs(started_s - record["started_s"]) < SAME_START_S
    except psutil.Error:
        return False


def _mark(record: dict) -> str:
    return f"{record['pid']} {record['started_s']}"


def _stop_jobs_of(record: dict) -> int:
    """End the jobs of a dead run, which would write the files that the new run writes; returns how many."""
    jobs = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(JOB_MARK) == _mark(record):
                process.kill()
                jobs.append(process)
        except psutil.Error:  # ended in the meantime, or of another user
            continue
    psutil.wait_procs(jobs, timeout=10)
    return len(jobs)

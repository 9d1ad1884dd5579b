"""One run at a time in a folder; a killed run is cleaned up, a living one is left alone."""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from servestudy.errors import UserError
from servestudy.run_lock import JOB_MARK, RECORD, claim_run, runs_jobs

SNAKEMAKE = Path(sys.executable).with_name("snakemake")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `.snakemake`; what claim_run puts into the environment is taken back."""
    monkeypatch.setenv(JOB_MARK, "")
    return tmp_path / ".snakemake"


def lock(folder: Path) -> Path:
    path = folder / "locks/0.input.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("data.csv\n")
    return path


def record(folder: Path, pid: int, started_s: float, host: str = platform.node()) -> dict:
    content = {"host": host, "pid": pid, "started_s": started_s}
    folder.mkdir(exist_ok=True)
    (folder / RECORD).write_text(json.dumps(content))
    return content


def own_record(folder: Path) -> dict:
    process = psutil.Process()
    return {"host": platform.node(), "pid": process.pid, "started_s": process.create_time()}


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


# Which calls of Snakemake count as a run


@pytest.mark.parametrize(
    "arguments",
    ["", "--cores all", "figures/a.svg -c2 --configfile a.yaml", "--touch -c1", "--report r.zip --report-after-run"],
)
def test_calls_that_run_jobs(arguments):
    assert runs_jobs(["snakemake", *arguments.split()])


@pytest.mark.parametrize(
    "arguments",
    ["--lint", "--unlock", "--summary", "-S", "--dag dot", "--list-rules", "-l", "--report=r.zip", "all --nolock"],
)
def test_calls_that_run_none(arguments):
    assert not runs_jobs(["snakemake", *arguments.split()])


# The record and the locks


def test_first_run_leaves_its_record(folder, capsys):
    claim_run(folder)
    assert json.loads((folder / RECORD).read_text()) == own_record(folder)
    assert capsys.readouterr().err == ""


def test_same_process_may_claim_again(folder):
    claim_run(folder)
    claim_run(folder)


def test_finished_run_is_followed_without_a_word(folder, dead_pid, capsys):
    record(folder, dead_pid, time.time())
    claim_run(folder)
    assert json.loads((folder / RECORD).read_text()) == own_record(folder)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("locked", [True, False])
def test_living_run_is_left_alone(folder, locked):
    other = psutil.Process(os.getppid())
    before = record(folder, other.pid, other.create_time())
    path = lock(folder) if locked else None
    with pytest.raises(UserError) as caught:
        claim_run(folder)
    assert str(caught.value) == (
        f"another run (process {other.pid}) is active in this folder: wait for it, or stop it with `kill {other.pid}`"
    )
    assert json.loads((folder / RECORD).read_text()) == before
    assert not locked or path.exists()


def test_lock_of_a_killed_run_is_removed(folder, dead_pid, capsys):
    record(folder, dead_pid, time.time())
    path = lock(folder)
    claim_run(folder)
    assert not path.exists()
    assert path.parent.is_dir()
    assert capsys.readouterr().err == "the last run was killed: removed its lock, going on where it stopped\n"


def test_a_new_process_with_the_old_number_is_another_one(folder):
    other = psutil.Process(os.getppid())
    record(folder, other.pid, other.create_time() - 3600)
    path = lock(folder)
    claim_run(folder)
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"host": "h", "pid": "x", "started_s": 1}'])
def test_lock_without_a_readable_record_is_the_users_to_remove(folder, text):
    path = lock(folder)
    (folder / RECORD).write_text(text)
    with pytest.raises(UserError, match=r"^this folder is locked by another run: .* `snakemake --unlock`"):
        claim_run(folder)
    assert path.exists()


def test_lock_of_another_machine_is_the_users_to_remove(folder, dead_pid):
    record(folder, dead_pid, time.time(), host="elsewhere")
    path = lock(folder)
    with pytest.raises(UserError, match=r"^this folder is locked by machine elsewhere: .* `snakemake --unlock`"):
        claim_run(folder)
    assert path.exists()


def test_jobs_of_a_killed_run_are_stopped_and_no_others(folder, dead_pid, capsys):
    started_s = time.time()
    record(folder, dead_pid, started_s)

    def sleeper(mark: str) -> subprocess.Popen:
        return subprocess.Popen(["sleep", "60"], env={**os.environ, JOB_MARK: mark})

    left_over, foreign = sleeper(f"{dead_pid} {started_s}"), sleeper(f"{dead_pid} {started_s + 1}")
    try:
        claim_run(folder)
        assert not psutil.pid_exists(left_over.pid)
        assert foreign.poll() is None
    finally:
        left_over.kill()
        foreign.kill()
    assert "removed its lock and 1 job(s) that it left running" in capsys.readouterr().err


# The real thing

SNAKEFILE = """
import sys
from servestudy.errors import UserError
from servestudy.run_lock import claim_run, runs_jobs

try:
    if workflow.is_main_process and not workflow.output_settings.dryrun and runs_jobs(sys.argv):
        claim_run()
except UserError as error:
    sys.exit(str(error))

rule slow:
    output: "done.txt"
    shell: "touch started; while [ ! -e go_on ]; do sleep 0.1; done; echo done > {output}"
"""


def snakemake(folder: Path, *options: str, **keywords) -> subprocess.Popen:
    return subprocess.Popen(
        [SNAKEMAKE, "--cores", "1", "--rerun-incomplete", *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **keywords,
    )


def wait_for(path: Path, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


def test_second_run_and_killed_run_of_a_real_workflow(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    first = snakemake(tmp_path)
    try:
        wait_for(tmp_path / "started")

        second = snakemake(tmp_path)
        errors = second.communicate(timeout=60)[1]
        assert second.returncode == 1
        assert errors.splitlines()[-1] == (
            f"another run (process {first.pid}) is active in this folder: "
            f"wait for it, or stop it with `kill {first.pid}`"
        )
        assert "Traceback" not in errors

        looking_on = snakemake(tmp_path, "--summary", stdout=subprocess.PIPE)
        assert "done.txt" in looking_on.communicate(timeout=60)[0]
        assert looking_on.returncode == 0

        first.kill()  # Snakemake alone: its job goes on and waits
        first.wait(10)
        (tmp_path / "started").unlink()
        third = snakemake(tmp_path)
        wait_for(tmp_path / "started")
        (tmp_path / "go_on").touch()
        errors = third.communicate(timeout=60)[1]
        assert third.returncode == 0, errors
        assert "the last run was killed: removed its lock and " in errors
        assert (tmp_path / "done.txt").read_text() == "done\n"
    finally:
        first.kill()
        (tmp_path / "go_on").touch()

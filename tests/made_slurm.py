"""A Slurm of one node on this machine's loopback, for the tests: munge, controller and node daemon of its own.

Everything that it writes, its key and its sockets included, lies in one folder; it uses free ports and leaves a Slurm
that may be installed on the machine alone.
"""

import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
STARTS_WITHIN_S = 60
ENDS_WITHIN_S = 20


def missing() -> list[str]:
    """What a Slurm for the tests lacks here."""
    lacks = [name for name in PROGRAMS if _found(name) is None]
    if find_spec("snakemake_executor_plugin_slurm") is None:
        lacks.append("snakemake-executor-plugin-slurm")
    if not lacks and os.geteuid() != 0:
        lacks.append("the rights of root")
    return lacks


@contextmanager
def slurm(folder: Path, cpus: int) -> Iterator[dict[str, str]]:
    """Run a Slurm with one node of `cpus` processors; yields the environment variables that its commands need.

    Raises RuntimeError with the daemons' last lines if it is not ready within a minute.
    """
    folder.mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munge_socket = folder / "munge.socket"
    configuration = _configuration(folder, cpus, munge_socket)
    variables = {
        "SLURM_CONF": str(configuration),
        "PATH": f"{_own_srun(folder, configuration)}:{os.environ['PATH']}",
    }
    munged = [
        *("munged", "--foreground", "--force", "--num-threads=1", f"--socket={munge_socket}", f"--key-file={key}"),
        *(f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"),
    ]
    with ExitStack() as daemons:
        for command in (munged, ["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", "testnode"]):
            daemons.enter_context(_daemon(command, folder, variables))
            if command is munged:
                _wait(munge_socket.exists, "munged", folder)
        _wait(lambda: _state(variables) == "idle", "slurm", folder)
        try:
            yield variables
        finally:
            _cancel_all(variables)


def _cancel_all(variables: dict[str, str]) -> None:
    """Jobs that a failed run left behind would outlive the daemons."""
    end = time.monotonic() + ENDS_WITHIN_S
    while (jobs := _told("squeue", "--noheader", "--format=%i", **variables).split()) and time.monotonic() < end:
        _told("scancel", *jobs, **variables)
        time.sleep(0.5)


def _configuration(folder: Path, cpus: int, munge_socket: Path) -> Path:
    """slurm.conf, without accounting and control groups: what a test machine may not have."""
    controller, node = _free_ports(2)
    host = platform.node()
    settings = {
        "ClusterName": "test",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": controller,
        "SlurmdPort": node,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={munge_socket}",
        "CredType": "cred/munge",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd.pid",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=2",
        "AccountingStorageType": "accounting_storage/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "ReturnToService": 2,
        "MinJobAge": 600,
        "KillWait": 2,
    }
    memory_mb = (psutil.virtual_memory().total >> 20) * 9 // 10
    lines = [f"{name}={value}" for name, value in settings.items()]
    lines.append(f"NodeName=testnode NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb}")
    lines.append("PartitionName=main Nodes=testnode Default=YES MaxTime=INFINITE State=UP")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    path = folder / "slurm.conf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _own_srun(folder: Path, configuration: Path) -> Path:
    """A folder with an srun that finds its Slurm by itself: Snakemake's job steps hide $SLURM_CONF from it."""
    programs = folder / "bin"
    programs.mkdir()
    srun = programs / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={configuration} exec {_found("srun")} "$@"\n', encoding="utf-8")
    srun.chmod(0o755)
    return programs


@contextmanager
def _daemon(command: list[str], folder: Path, variables: dict[str, str]) -> Iterator[None]:
    """Run a daemon in the foreground; end it, and what it has started, afterwards."""
    name, *options = command
    with (folder / f"{name}.out").open("w") as out:
        process = subprocess.Popen(
            [_found(name), *options], env={**os.environ, **variables}, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in children:
            if child.is_running():
                child.kill()


def _state(variables: dict[str, str]) -> str:
    """State of the node, as idle; empty while the controller does not answer."""
    return _told("sinfo", "--noheader", "--format=%T", **variables).strip()


def _told(program: str, *options: str, **variables: str) -> str:
    command = [_found(program), *options]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60).stdout


def _wait(is_ready, what: str, folder: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while not is_ready():
        if time.monotonic() > end:
            told = [f"{path.name}: {path.read_text(errors='replace')[-2000:]}" for path in sorted(folder.glob("*.out"))]
            raise RuntimeError("\n".join([f"{what} is not ready after {STARTS_WITHIN_S} s", *told]))
        time.sleep(0.1)


def _free_ports(number: int) -> list[int]:
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _found(program: str) -> str | None:
    """Daemons lie in a folder that is not on everybody's path."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")

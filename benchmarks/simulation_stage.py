"""How long the simulation stage takes: calibration of all windows, and every cell twice.

In a copy of the project in an empty folder, makes the windows first (not measured), then lets Snakemake run the stage
with its own overhead. Prints wall time, CPU time, cells a second; then the CPU time of the engine alone, scheduler by
scheduler, in one process. Quote ratios and medians: machines are noisy.

    python benchmarks/simulation_stage.py [--cores 2] [--configfile config/real.yaml]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from servestudy import calibration, simulation
from servestudy.calibration import calibrate, read_lambda_ref
from servestudy.config import check_run, run_layers
from servestudy.engine import fixed_step
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.schedulers.registry import make_scheduler
from servestudy.simulation import simulate_window
from servestudy.windows.frozen import read_windows
from servestudy.workload import REGIONS, synthesize

PROJECT = Path(__file__).parents[1]
WALL_LIMIT_S, ENGINE_CPU_LIMIT_S = 60, 30


def copy_project(folder: Path) -> None:
    """The files that git knows or would add, without results."""
    listed = ["git", "-C", str(PROJECT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    subprocess.run(
        ["tar", "-cf", "-", "-T", "-"],
        input=names.encode(),
        cwd=PROJECT,
        check=True,
        stdout=(folder / "p.tar").open("wb"),
    )
    subprocess.run(["tar", "-xf", "p.tar"], cwd=folder, check=True)


def snakemake(folder: Path, target: str, args: argparse.Namespace) -> tuple[float, float]:
    """Wall and CPU seconds (all processes) of one Snakemake run."""
    command = [str(Path(sys.executable).with_name("snakemake")), target, "--cores", str(args.cores)]
    if args.configfile:
        command += ["--configfile", args.configfile]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class EngineClock:
    """Takes the place of the engine's `run` and adds up the CPU time that it spends, schedulers included."""

    def __init__(self):
        self.seconds = 0.0

    def run(self, *args, **kwargs):
        started = time.process_time()
        outcome = fixed_step.run(*args, **kwargs)
        self.seconds += time.process_time() - started
        return outcome


def engine_seconds(folder: Path, config: dict) -> dict[str, float]:
    """CPU seconds in this process by scheduler, repetitions included, and of the calibration.

    Synthesis, scaling, metrics and hashes included; what the engine itself takes of it is the entry `engine`.
    """
    clock = EngineClock()
    calibration.run = simulation.run = clock.run
    results = folder / "results" / config["run"]
    spent = dict.fromkeys(["calibration", *config["schedulers"]], 0.0)
    for source in config["sources"]:
        windows = read_windows(results / f"windows/{source}.parquet")
        lambda_ref = read_lambda_ref(results / f"calibration/published/{source}.parquet")
        for window in windows:
            started = time.process_time()
            calibrate(synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number))
            spent["calibration"] += time.process_time() - started
        for name in config["schedulers"]:
            started = time.process_time()
            for window in windows:
                make = lambda: make_scheduler(name)  # noqa: B023, E731
                load, repetitions = lambda_ref[window.window_id], config["repetitions"]
                list(simulate_window(window, load, name, make, repetitions, PUBLISHED_MODEL))
            spent[name] += time.process_time() - started
    return {"engine": clock.seconds, **spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--configfile", help="config file of another run than the default one")
    args = parser.parse_args()
    config = check_run(run_layers([args.configfile] if args.configfile else [], root=PROJECT), PROJECT)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_project(folder)
        snakemake(folder, f"results/{config['run']}/windows/index.csv", args)
        wall, cpu = snakemake(folder, "cells", args)
        index = (folder / f"results/{config['run']}/windows/index.csv").read_text().splitlines()
        windows = len(index) - 1
        executions = windows * len(REGIONS) * len(config["schedulers"]) * config["repetitions"]
        print(f"stage: {executions} executions of cells and {windows} calibrations on {args.cores} cores")
        print(f"  wall {wall:.1f} s (limit {WALL_LIMIT_S}), CPU of all processes {cpu:.1f} s")
        print(f"  {executions / wall:.0f} cells a second")
        spent = engine_seconds(folder, config)
    engine = spent.pop("engine")
    total = sum(spent.values())
    print(
        f"in one process: {total:.1f} s CPU, of which {engine:.1f} s in the engine, "
        f"{engine / args.cores:.1f} s a core (limit {ENGINE_CPU_LIMIT_S})"
    )
    print(f"  {executions / (total - spent['calibration']):.0f} cells a second and core")
    for what, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"  {what:32s} {seconds:6.2f} s  {seconds / total:4.0%}")


if __name__ == "__main__":
    main()

"""How many requests a second the serving engine simulates on one core, scheduler by scheduler.

The Azure 2023 conversation trace on one Llama-2-7B A100 replica: 7,424 blocks, at most 128 sequences and 4,096
batched tokens; prompts clipped so that prompt + output <= 4,096; arrival times stretched by 1.25, to 4.42 requests a
second (near saturation), and squeezed to twice that rate (deep overload). Making the requests and the metrics of the
run count; reading the file does not. CPU time, median of the repeats: quote ratios, machines are noisy.

    python benchmarks/serving_engine.py [MIRROR] [--schedulers fcfs ... | all] [--repeats 3] [--profile]

MIRROR, or $SERVESTUDY_TRACE_MIRROR, is the folder with azure_2023/AzureLLMInferenceTrace_conv.csv.
"""

import argparse
import cProfile
import csv
import os
import pkgutil
import pstats
import resource
import statistics
import sys
import time
from datetime import datetime
from importlib import import_module
from pathlib import Path

import numpy as np

from servestudy.engine.iteration import ReplicaConfig, replica_limits, run
from servestudy.metrics import cell_metrics
from servestudy.schedulers import serving
from servestudy.schedulers.protocol import Scheduler
from servestudy.workload import Workload

TRACE = "azure_2023/AzureLLMInferenceTrace_conv.csv"
MAX_TOKENS = 4096
RATES = {"near saturation": 4.42, "deep overload": 8.84}
SIZES = (2_000, 19_366)
CONFIG = ReplicaConfig(limits=replica_limits(7424, max_num_seqs=128, max_num_batched_tokens=4096))
SECONDS_PER_TOKEN = 0.05
GOALS = {"near saturation": (50_000, 20_000), "deep overload": (50_000, 10_000)}
"""Requests a second: of first come, first served, and of every other scheduler."""
MEMORY_LIMIT_MIB = 100


def read_trace(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds since the first arrival, prompt tokens and output tokens."""
    with path.open(newline="") as file:
        rows = [
            (datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp(), row["ContextTokens"], row["GeneratedTokens"])
            for row in csv.DictReader(file)
        ]
    time_s, prompt, output = np.array(rows, dtype=np.float64).T
    return time_s - time_s[0], prompt.astype(np.int64), output.astype(np.int64)


def make_workload(trace: tuple[np.ndarray, np.ndarray, np.ndarray], requests: int, rate: float) -> Workload:
    """The first `requests` rows, the whole trace coming at `rate` requests a second, with deadlines of two classes."""
    time_s, prompt, output = trace
    arrival = (time_s * (len(time_s) / time_s[-1] / rate))[:requests]
    output = np.clip(output[:requests], 1, MAX_TOKENS - 1)
    prompt = np.clip(prompt[:requests], 1, MAX_TOKENS - output)
    strict = np.arange(requests) % 2 == 0
    return Workload(
        arrival_s=arrival,
        prompt_tokens=prompt,
        output_tokens=output,
        predicted_output_tokens=output,
        deadline_s=arrival + 5.0 + SECONDS_PER_TOKEN * output,
        weight=np.ones(requests),
        class_id=np.where(strict, "strict", "relaxed").tolist(),
        ttft_deadline_s=arrival + np.where(strict, 1.0, 5.0),
        tbt_target_s=np.where(strict, 0.1, 0.3),
    )


def serving_schedulers() -> dict[str, type[Scheduler]]:
    """Class by module name: the scheduler in a module is the class of the same name."""
    classes = {}
    for module in pkgutil.iter_modules(serving.__path__):
        for name, member in vars(import_module(f"{serving.__name__}.{module.name}")).items():
            if name.lower() == module.name.replace("_", "") and issubclass(member, Scheduler):
                classes[module.name] = member
    return classes


def measure(scheduler: type[Scheduler], workload: Workload, repeats: int) -> tuple[float, dict, object]:
    """Median CPU seconds, metrics and outcome."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        outcome = run(workload.requests(), workload.output_tokens.tolist(), scheduler(), CONFIG)
        metrics = cell_metrics(outcome, workload)
        seconds.append(time.process_time() - started)
    return statistics.median(seconds), metrics, outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirror", nargs="?", default=os.environ.get("SERVESTUDY_TRACE_MIRROR"))
    parser.add_argument("--schedulers", nargs="+", default=["fcfs"], help="module names, or all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="say in which functions the time goes")
    args = parser.parse_args()
    if not args.mirror or not (Path(args.mirror) / TRACE).is_file():
        sys.exit(f"{TRACE} not found; give the mirror folder that holds it, or set SERVESTUDY_TRACE_MIRROR")
    known = serving_schedulers()
    names = list(known) if args.schedulers == ["all"] else args.schedulers
    if unknown := set(names) - set(known):
        sys.exit(f"no serving scheduler {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    trace = read_trace(Path(args.mirror) / TRACE)
    if args.profile:
        for name in names:
            workload = make_workload(trace, SIZES[-1], RATES["near saturation"])
            profile = cProfile.Profile()
            profile.runcall(measure, known[name], workload, 1)
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)
        return
    print("scheduler                     load             requests   CPU s  requests/s  (goal)  us/request by size   "
          "ANWG  completed  preempted  iterations")  # fmt: skip
    for name in names:
        for load, rate in RATES.items():
            cost = {}
            for size in SIZES:
                seconds, metrics, outcome = measure(known[name], make_workload(trace, size, rate), args.repeats)
                cost[size] = seconds / size * 1e6
            goal = GOALS[load][name != "fcfs"]
            costs = " -> ".join(f"{us:.1f}" for us in cost.values())
            print(
                f"{name:29s} {load:16s} {size:8d} {seconds:7.2f} {size / seconds:11,.0f} {goal:8,d}  {costs:>18s}   "
                f"{metrics['arrival_normalized_weighted_goodput']:.3f} {len(outcome.completed_ids):10d} "
                f"{outcome.telemetry.preemption_or_reorder_events:10d} {outcome.telemetry.n_steps:11d}",
                flush=True,
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MiB (limit {MEMORY_LIMIT_MIB} for one scheduler)")


if __name__ == "__main__":
    main()

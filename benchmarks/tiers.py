"""How fast the cluster of the tiers study is: the published burst, moves near saturation, and 1 to 64 replicas.

    python benchmarks/tiers.py [--quick]

CPU seconds of this process, the least of three runs, as other programs on the machine only add to them.
"""

import argparse
import time
from dataclasses import replace

from servestudy.tiers.load import capacity_rps
from servestudy.tiers.outcome import simulate
from servestudy.tiers.settings import PRESETS, SERVING, Rules
from servestudy.tiers.workload import MEAN_CLIPPED_GAP, Requests, draw

WORKLOAD = PRESETS["serving"].workload
LOAD = 0.9


def cpu_s(system: str, requests: Requests, tiers: int, rules: Rules, runs: int) -> tuple[float, int]:
    """Least CPU seconds of a run, and requests completed."""
    best, completed = float("inf"), 0
    for _ in range(runs):
        start = time.process_time()
        outcome, _ = simulate(system, requests, tiers, rules)
        best = min(best, time.process_time() - start)
        completed = int(outcome.completed.sum())
    return best, completed


def at_load(replicas: int, count: int) -> tuple[Requests, Rules]:
    """Requests at LOAD of the measured capacity, with moves that cost."""
    rules = replace(SERVING, replicas=replicas)
    one = capacity_rps(WORKLOAD, 1, rules.total_blocks, rules.max_num_seqs)
    rate = LOAD * one * replicas * MEAN_CLIPPED_GAP
    return draw(replace(WORKLOAD, requests=count, requests_per_s=rate), "uniform", 4, 1, "separate"), rules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests, one run each")
    quick = parser.parse_args().quick
    runs, share = (1, 10) if quick else (3, 1)

    burst = PRESETS["burst"]
    count = 10_000 // share
    requests = draw(replace(burst.workload, requests=count), "uniform", 4, 42)
    for system in ("infaas_vllm", "ours"):
        seconds, completed = cpu_s(system, requests, 4, burst.rules, runs)
        print(f"published burst, 4 x {count:,} requests, {system}: {seconds:.2f} s, {completed:,} completed")

    count = 40_000 // share
    requests, rules = at_load(16, count)
    for name, changed in (("moves that cost", rules), ("no moves", replace(rules, migration="off"))):
        seconds, completed = cpu_s("ours", requests, 4, changed, runs)
        print(f"serving, load {LOAD}, 16 replicas, {name}: {count / seconds:,.0f} requests/s, {completed:,} completed")

    for replicas in (1, 4, 16, 64):
        count = 1500 * replicas // share
        requests, rules = at_load(replicas, count)
        seconds, completed = cpu_s("ours", requests, 4, rules, 1 if replicas == 64 else runs)
        print(f"serving, {replicas:2d} replicas: {1e6 * seconds / count:.1f} us a request, {completed:,} completed")


if __name__ == "__main__":
    main()

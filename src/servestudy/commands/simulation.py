"""Commands that run the engine on all windows: calibration, cells, variants."""

import argparse
from functools import partial
from pathlib import Path

from servestudy.commands.options import (
    NewCommand,
    chosen_model,
    model_options,
    model_under_rules,
    numbered_file,
    one_of,
    positive_number,
    rules_option,
)


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("calibrate", calibrate, "find the reference load of each window")
    model_options(sub)
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--out", type=Path, required=True)

    sub = command("simulate", simulate, "run one scheduler on all windows and regions of a source")
    model_options(sub)
    sub.add_argument("--scheduler", required=True)
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--calibration", type=Path, required=True)
    sub.add_argument(
        "--repetitions", type=positive_number, required=True, help="runs of each cell, compared bit for bit"
    )
    sub.add_argument("--out", type=Path, required=True)

    sub = command("simulate-slo", simulate_slo, "run a source's cells again under other SLO multipliers")
    rules_option(sub)
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--calibration", type=Path, required=True)
    sub.add_argument("--cells", nargs="+", type=Path, required=True, help="the run's own cells of the source")
    sub.add_argument("--schedulers", nargs="+", required=True)
    sub.add_argument("--out", nargs="+", type=numbered_file, required=True, metavar="MULTIPLIER=FILE")

    sub = command("simulate-window-sizes", simulate_window_sizes, "run a source's cells with other requests per window")
    rules_option(sub)
    sub.add_argument("--windows", type=Path, required=True, help="window table that `freeze --longer` wrote")
    sub.add_argument("--schedulers", nargs="+", required=True)
    sub.add_argument("--regions", nargs="+", required=True, help="load regions")
    sub.add_argument("--out", nargs="+", type=numbered_file, required=True, metavar="REQUESTS=FILE")


def calibrate(args: argparse.Namespace) -> None:
    from servestudy.calibration import calibrate_windows
    from servestudy.windows.frozen import read_windows

    model = chosen_model(args)
    calibrate_windows(read_windows(args.windows), args.out, model.name, model.calibrate)


def simulate(args: argparse.Namespace) -> None:
    from servestudy.calibration import read_lambda_ref
    from servestudy.simulation import simulate_shard
    from servestudy.windows.frozen import read_windows

    model = chosen_model(args)
    simulate_shard(
        read_windows(args.windows),
        read_lambda_ref(args.calibration),
        args.scheduler,
        partial(model.scheduler, args.scheduler),
        args.repetitions,
        model,
        args.out,
    )


def simulate_slo(args: argparse.Namespace) -> None:
    from servestudy.calibration import read_lambda_ref
    from servestudy.slo_variants import simulate_variants
    from servestudy.windows.frozen import read_windows

    windows, lambda_ref = read_windows(args.windows), read_lambda_ref(args.calibration)
    model = model_under_rules(args.set)
    simulate_variants(windows, lambda_ref, args.cells, args.schedulers, dict(args.out), model)


def simulate_window_sizes(args: argparse.Namespace) -> None:
    from servestudy.window_sizes import simulate_sizes
    from servestudy.workload import REGIONS

    for region in args.regions:
        one_of("region", region, REGIONS)
    model = model_under_rules(args.set)
    simulate_sizes(args.windows, args.schedulers, args.regions, dict(args.out), model)

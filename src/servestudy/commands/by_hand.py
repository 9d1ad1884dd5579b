"""Commands for a person: one cell, one window, a configuration."""

import argparse
from functools import partial
from pathlib import Path

from servestudy.commands.options import (
    NewCommand,
    chosen_model,
    load_factor,
    model_options,
    one_of,
    registered_source,
    whole_number,
)


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("cell", cell, "run one cell of a run that has windows and calibration; print metrics and telemetry")
    sub.add_argument("--source", required=True, help="id of a source, as in config/sources.tsv")
    sub.add_argument("--window", required=True, help="id or number of a window")
    sub.add_argument(
        "--region", required=True, help="load region: LOW, PRE_KNEE, KNEE, POST_KNEE, OVERLOAD, HIGH_PRESSURE"
    )
    sub.add_argument("--scheduler", required=True, help="name of a scheduler, as in config/schedulers.yaml")
    model_options(sub)
    sub.add_argument("--run", default="embedded", help="name of the run, below results/ (default: %(default)s)")

    sub = command("panel", panel, "run a window file through all regions and schedulers; write a long table")
    sub.add_argument("window", type=Path, help="CSV with the columns index, arrival_s, prompt_tokens, output_tokens")
    sub.add_argument("--window-number", type=whole_number, required=True, help="number that seeds the prediction noise")
    sub.add_argument("--lambda-ref", type=load_factor, help="reference load factor (default: calibrate the window)")
    model_options(sub)
    sub.add_argument(
        "--recalibrate", action="store_true", help="calibrate under the rules of --set as well, not the published ones"
    )
    sub.add_argument(
        "--out", type=Path, required=True, help="CSV to write: window_id, region, scheduler, metric, value"
    )

    sub = command("check-config", check_config, "check configuration files; list every problem")
    sub.add_argument("files", nargs="+", type=Path)


def cell(args: argparse.Namespace) -> None:
    from servestudy.calibration import read_lambda_ref
    from servestudy.simulation import simulate_window
    from servestudy.windows.frozen import read_windows
    from servestudy.workload import REGIONS

    registered_source(args.source)
    one_of("region", args.region, REGIONS)
    model = chosen_model(args)
    model.scheduler(args.scheduler)  # an unknown name is told before any work
    results = Path("results") / args.run
    windows = {window.window_id: window for window in read_windows(results / f"windows/{args.source}.parquet")}
    window_id = args.window
    if window_id.isdecimal():
        window_id = next((key for key, window in windows.items() if window.number == int(window_id)), window_id)
    window = one_of("window", window_id, windows)
    lambda_ref = read_lambda_ref(results / f"calibration/{model.name}/{args.source}.parquet")[window_id]
    make = partial(model.scheduler, args.scheduler)
    (row,) = simulate_window(window, lambda_ref, args.scheduler, make, 1, model, [args.region])
    for name, value in row.items():
        print(f"{name:36s} {value!r}" if isinstance(value, float) else f"{name:36s} {value}")


def panel(args: argparse.Namespace) -> None:
    from servestudy.panel import panel_rows, read_window_csv, write_long_csv
    from servestudy.schedulers.registry import schedulers_of

    model = chosen_model(args)
    window = read_window_csv(args.window, args.window_number)
    calibrating = model if args.recalibrate or model.name != "published" else model.as_calibrated()
    rows = panel_rows(window, schedulers_of(model.name), args.lambda_ref, model, calibrating)
    write_long_csv(rows, args.out)


def check_config(args: argparse.Namespace) -> None:
    from servestudy.config import check_config_files

    check_config_files(args.files)
    print("no problem found")

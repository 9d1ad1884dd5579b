"""The command line: one subcommand a step of the workflow, and a few to look at single cells and windows.

Subcommands import what they need when they run, so that `--help` and the start of each job are quick.
"""

import argparse
import logging
import os
import sys
from functools import partial
from pathlib import Path

from servestudy import __version__
from servestudy.errors import UserError
from servestudy.plotting.registry import FIGURES
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES
from servestudy.tabulation.registry import TABLES

SOURCES = "config/sources.tsv"


def synthesize(args: argparse.Namespace) -> None:
    from servestudy.traces.synthesize import synthesize

    synthesize(args.source, args.out)


def fetch(args: argparse.Namespace) -> None:
    from servestudy.traces.fetch import fetch
    from servestudy.traces.registry import load_sources

    fetch(_one_of("source", args.source, load_sources(SOURCES)), args.out, args.mirror)


def freeze(args: argparse.Namespace) -> None:
    from servestudy.traces.registry import load_sources
    from servestudy.windows.freeze import freeze

    source = _one_of("source", args.source, load_sources(SOURCES))
    windows = freeze(
        source,
        args.trace,
        args.out,
        args.index,
        args.stage0_windows,
        args.extension_windows,
        args.max_bad_share,
        args.longer,
    )
    print(f"{args.source}: {len(windows)} windows")


def window_index(args: argparse.Namespace) -> None:
    from servestudy.windows.freeze import merge_indexes

    merge_indexes(args.files, args.out)


def calibrate(args: argparse.Namespace) -> None:
    from servestudy.calibration import calibrate_windows
    from servestudy.windows.frozen import read_windows

    calibrate_windows(read_windows(args.windows), args.out)


def simulate(args: argparse.Namespace) -> None:
    from servestudy.calibration import read_lambda_ref
    from servestudy.schedulers.registry import make_scheduler
    from servestudy.simulation import simulate_shard
    from servestudy.windows.frozen import read_windows

    simulate_shard(
        read_windows(args.windows),
        read_lambda_ref(args.calibration),
        args.scheduler,
        partial(make_scheduler, args.scheduler),
        args.repetitions,
        args.out,
    )


def simulate_slo(args: argparse.Namespace) -> None:
    from servestudy.calibration import read_lambda_ref
    from servestudy.slo_variants import simulate_variants
    from servestudy.windows.frozen import read_windows

    windows, lambda_ref = read_windows(args.windows), read_lambda_ref(args.calibration)
    simulate_variants(windows, lambda_ref, args.cells, args.schedulers, dict(args.out))


def simulate_window_sizes(args: argparse.Namespace) -> None:
    from servestudy.window_sizes import simulate_sizes
    from servestudy.workload import REGIONS

    for region in args.regions:
        _one_of("region", region, REGIONS)
    simulate_sizes(args.windows, args.schedulers, args.regions, dict(args.out))


def statistics(args: argparse.Namespace) -> None:
    from servestudy.statistics.registry import run_analysis

    run_analysis(args.analysis, args.cells, args.schedulers, args.window_order, args.window_index, args.out)


def sensitivity(args: argparse.Namespace) -> None:
    from servestudy.statistics.registry import run_variant_analysis

    variants: dict[int, list[Path]] = {}
    for number, path in args.variants:
        variants.setdefault(number, []).append(path)
    run_variant_analysis(args.analysis, args.cells, variants, args.schedulers, args.reversals, args.out)


def workload(args: argparse.Namespace) -> None:
    from servestudy.statistics.registry import run_workload_analysis

    run_workload_analysis(args.analysis, args.windows, args.window_index, args.out)


def figure(args: argparse.Namespace) -> None:
    from servestudy.plotting.registry import draw_figure

    draw_figure(args.figure, dict(args.tables), args.title, args.model, args.out)


def table(args: argparse.Namespace) -> None:
    from servestudy.tabulation.registry import write_csv_table

    write_csv_table(args.table, dict(args.tables), args.title, args.model, args.out)


def claims(args: argparse.Namespace) -> None:
    from servestudy.claims import tables_by_name, tables_of_run, write_claims

    if args.run_dir:
        models = {model: tables_of_run(args.run_dir, model) for model in args.models}
    else:
        models = {"published": tables_by_name(args.tables)}
    write_claims(args.claims, models, args.title, args.out)


def manifest(args: argparse.Namespace) -> None:
    from servestudy.manifest import write_manifest

    write_manifest(args.files, args.out)


def check_config(args: argparse.Namespace) -> None:
    from servestudy.config import check_config_files

    check_config_files(args.files)
    print("no problem found")


def cell(args: argparse.Namespace) -> None:
    from servestudy.calibration import read_lambda_ref
    from servestudy.schedulers.registry import make_scheduler
    from servestudy.simulation import simulate_window
    from servestudy.traces.registry import load_sources
    from servestudy.windows.frozen import read_windows
    from servestudy.workload import REGIONS

    _one_of("source", args.source, load_sources(SOURCES))
    _one_of("region", args.region, REGIONS)
    make_scheduler(args.scheduler)  # an unknown name is told before any work
    results = Path("results") / args.run
    windows = {window.window_id: window for window in read_windows(results / f"windows/{args.source}.parquet")}
    window_id = args.window
    if window_id.isdecimal():
        window_id = next((key for key, window in windows.items() if window.number == int(window_id)), window_id)
    window = _one_of("window", window_id, windows)
    lambda_ref = read_lambda_ref(results / f"calibration/published/{args.source}.parquet")[window_id]
    make = partial(make_scheduler, args.scheduler)
    (row,) = simulate_window(window, lambda_ref, args.scheduler, make, repetitions=1, regions=[args.region])
    for name, value in row.items():
        print(f"{name:36s} {value!r}" if isinstance(value, float) else f"{name:36s} {value}")


def panel(args: argparse.Namespace) -> None:
    from servestudy.panel import panel_rows, read_window_csv, write_long_csv
    from servestudy.schedulers.registry import registered_schedulers

    window = read_window_csv(args.window, args.window_number)
    write_long_csv(panel_rows(window, list(registered_schedulers()), args.lambda_ref), args.out)


def _one_of(what: str, name: str, known: dict):
    if name not in known:
        raise UserError(f"{what} {name!r} is unknown; known are {', '.join(known)}")
    return known[name]


def _load_factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, 0 or more")
    return int(text)


def _positive_number(text: str) -> int:
    if not _whole_number(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, 1 or more")
    return int(text)


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise argparse.ArgumentTypeError(f"found {text!r}, must be NAME=FILE")
    return name, Path(file)


def _numbered_file(text: str) -> tuple[int, Path]:
    number, file = _named_file(text)
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, must be NUMBER=FILE with a whole number, 1 or more")
    return int(number), file


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(
        prog="servestudy",
        description="Steps of the servestudy workflow. `snakemake --cores all` runs them in order and only where\n"
        "needed; each can also be run by hand. See README.md.",
        epilog="examples:\n"
        "  servestudy cell --source azure_like --window 3 --region KNEE --scheduler slai_faithful\n"
        "  servestudy panel my_window.csv --window-number 0 --out my_panel.csv\n"
        "  servestudy check-config config/real.yaml\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"servestudy {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, function, text: str, group=commands) -> argparse.ArgumentParser:
        sub = group.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        return sub

    def model_option(sub: argparse.ArgumentParser) -> None:
        sub.add_argument(
            "--model", choices=["published"], default="published", help="engine model (default: %(default)s)"
        )

    sub = command("cell", cell, "run one cell of a run that has windows and calibration; print metrics and telemetry")
    sub.add_argument("--source", required=True, help="id of a source, as in config/sources.tsv")
    sub.add_argument("--window", required=True, help="id or number of a window")
    sub.add_argument(
        "--region", required=True, help="load region: LOW, PRE_KNEE, KNEE, POST_KNEE, OVERLOAD, HIGH_PRESSURE"
    )
    sub.add_argument("--scheduler", required=True, help="name of a scheduler, as in config/schedulers.yaml")
    sub.add_argument("--run", default="embedded", help="name of the run, below results/ (default: %(default)s)")

    sub = command("panel", panel, "run a window file through all regions and schedulers; write a long table")
    sub.add_argument("window", type=Path, help="CSV with the columns index, arrival_s, prompt_tokens, output_tokens")
    sub.add_argument(
        "--window-number", type=_whole_number, required=True, help="number that seeds the prediction noise"
    )
    sub.add_argument("--lambda-ref", type=_load_factor, help="reference load factor (default: calibrate the window)")
    model_option(sub)
    sub.add_argument(
        "--out", type=Path, required=True, help="CSV to write: window_id, region, scheduler, metric, value"
    )

    sub = command("synthesize", synthesize, "write an embedded (synthetic) raw trace")
    sub.add_argument("--source", required=True)
    sub.add_argument("--out", type=Path, required=True)

    sub = command("fetch", fetch, "get a raw trace from the mirror folder or from its address; check its sha256")
    sub.add_argument("--source", required=True)
    sub.add_argument("--out", type=Path, required=True)
    sub.add_argument(
        "--mirror",
        type=Path,
        default=os.environ.get("SERVESTUDY_TRACE_MIRROR") or None,
        help="folder laid out <mirror>/<dataset>/<file> (default: $SERVESTUDY_TRACE_MIRROR)",
    )

    sub = command("freeze", freeze, "cut the study's windows out of a raw trace")
    sub.add_argument("--source", required=True)
    sub.add_argument("--trace", type=Path, required=True, help="raw trace file")
    sub.add_argument(
        "--stage0-windows", type=_positive_number, required=True, help="windows by the first sampling rule, at most"
    )
    sub.add_argument(
        "--extension-windows", type=_whole_number, required=True, help="windows by the second rule, at most"
    )
    sub.add_argument("--max-bad-share", type=float, required=True, help="stop where more rows than this are malformed")
    sub.add_argument("--out", type=Path, required=True, help="window table (Parquet)")
    sub.add_argument("--index", type=Path, required=True, help="window index (CSV)")
    sub.add_argument("--longer", type=Path, help="second window table, each window with the requests that follow it")

    sub = command("window-index", window_index, "join the window indexes of several sources")
    sub.add_argument("files", nargs="+", type=Path)
    sub.add_argument("--out", type=Path, required=True)

    sub = command("calibrate", calibrate, "find the reference load of each window")
    model_option(sub)
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--out", type=Path, required=True)

    sub = command("simulate", simulate, "run one scheduler on all windows and regions of a source")
    model_option(sub)
    sub.add_argument("--scheduler", required=True)
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--calibration", type=Path, required=True)
    sub.add_argument(
        "--repetitions", type=_positive_number, required=True, help="runs of each cell, compared bit for bit"
    )
    sub.add_argument("--out", type=Path, required=True)

    sub = command("simulate-slo", simulate_slo, "run a source's cells again under other SLO multipliers")
    model_option(sub)
    sub.add_argument("--windows", type=Path, required=True)
    sub.add_argument("--calibration", type=Path, required=True)
    sub.add_argument("--cells", nargs="+", type=Path, required=True, help="the run's own cells of the source")
    sub.add_argument("--schedulers", nargs="+", required=True)
    sub.add_argument("--out", nargs="+", type=_numbered_file, required=True, metavar="MULTIPLIER=FILE")

    sub = command("simulate-window-sizes", simulate_window_sizes, "run a source's cells with other requests per window")
    model_option(sub)
    sub.add_argument("--windows", type=Path, required=True, help="window table that `freeze --longer` wrote")
    sub.add_argument("--schedulers", nargs="+", required=True)
    sub.add_argument("--regions", nargs="+", required=True, help="load regions")
    sub.add_argument("--out", nargs="+", type=_numbered_file, required=True, metavar="REQUESTS=FILE")

    sub = command("statistics", statistics, "analyse the cells of a run, or anyone's values by window")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "analyses:\n" + "\n".join(f"  {name:24s}{analysis.text}" for name, analysis in ANALYSES.items())
    sub.add_argument("analysis", choices=ANALYSES, metavar="ANALYSIS", help="one of those listed below")
    sub.add_argument(
        "--cells",
        nargs="+",
        type=Path,
        required=True,
        help="cells of a run, or tables (CSV, Parquet): source, window_id, region, scheduler, metric, value",
    )
    sub.add_argument("--schedulers", nargs="+", help="schedulers to analyse (default: all that have values)")
    sub.add_argument("--window-order", type=Path, help="file with one window id a line, for digit-exact intervals")
    sub.add_argument(
        "--window-index",
        type=Path,
        help="CSV with source, window_id, start_row, time_s_min, for analyses that split windows by time",
    )
    sub.add_argument("--out", type=Path, required=True)

    sub = command("sensitivity", sensitivity, "compare a run with its variants: other SLOs, other window sizes")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "analyses:\n" + "\n".join(f"  {name:24s}{item.text}" for name, item in VARIANT_ANALYSES.items())
    sub.add_argument("analysis", choices=VARIANT_ANALYSES, metavar="ANALYSIS", help="one of those listed below")
    sub.add_argument("--cells", nargs="+", type=Path, required=True, help="cells of the run, or tables as `statistics`")
    sub.add_argument(
        "--variants",
        nargs="+",
        type=_numbered_file,
        required=True,
        metavar="NUMBER=FILE",
        help="cells or tables of a variant, named by its SLO multiplier or requests per window; repeat the number",
    )
    sub.add_argument("--schedulers", nargs="+", help="schedulers to analyse (default: all that have values)")
    sub.add_argument("--reversals", type=Path, help="table of the analysis `reversals` of the run (slo_persistence)")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("workload", workload, "analyse the windows themselves: features, separability, distances")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "analyses:\n" + "\n".join(f"  {name:24s}{item.text}" for name, item in WORKLOAD_ANALYSES.items())
    sub.add_argument("analysis", choices=WORKLOAD_ANALYSES, metavar="ANALYSIS", help="one of those listed below")
    sub.add_argument("--windows", nargs="+", type=Path, required=True, help="window tables, one a source")
    sub.add_argument("--window-index", type=Path, required=True, help="window index (CSV) that lists their windows")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("figure", figure, "draw a figure")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "figures, and the tables that each needs:\n" + "\n".join(
        f"  {name:28s}{item.text}\n{'':30s}[{', '.join(item.reads)}]" for name, item in FIGURES.items()
    )
    sub.add_argument("figure", choices=FIGURES, metavar="FIGURE", help="one of those listed below")
    sub.add_argument(
        "--tables", nargs="+", type=_named_file, required=True, metavar="NAME=FILE", help="tables of analyses"
    )
    sub.add_argument("--title", required=True, help="what the figure says about its traces")
    sub.add_argument("--model", required=True, help="engine model, as the figure names it")
    sub.add_argument("--out", nargs="+", type=Path, required=True, help="files to write: .svg, .pdf, .png")

    sub = command("table", table, "write a table as CSV")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "tables, and what each needs:\n" + "\n".join(
        f"  {name:28s}{item.text}\n{'':30s}[{', '.join(item.reads)}]" for name, item in TABLES.items()
    )
    sub.add_argument("table", choices=TABLES, metavar="TABLE", help="one of those listed below")
    sub.add_argument(
        "--tables", nargs="+", type=_named_file, required=True, metavar="NAME=FILE", help="tables that it is made of"
    )
    sub.add_argument("--title", required=True, help="what the table says about its traces")
    sub.add_argument("--model", required=True, help="engine model, as the table names it")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("claims", claims, "set a study's claims beside the values of a run, with verdicts")
    sub.add_argument("--claims", type=Path, default=Path("claims/portability.yaml"), help="default: %(default)s")
    given = sub.add_mutually_exclusive_group(required=True)
    given.add_argument("--run-dir", type=Path, help="folder of a run, as results/embedded")
    given.add_argument(
        "--tables", nargs="+", type=_named_file, metavar="NAME=FILE", help="tables of the published model"
    )
    sub.add_argument("--models", nargs="+", default=["published"], help="engine models of the run (default: published)")
    sub.add_argument("--title", required=True, help="what the claims table says about its traces")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("manifest", manifest, "write the content hashes of a run's outputs")
    sub.add_argument("files", nargs="+", type=Path)
    sub.add_argument("--out", type=Path, required=True)

    sub = command("check-config", check_config, "check configuration files; list every problem")
    sub.add_argument("files", nargs="+", type=Path)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand; return the exit status. What the user can mend is told in plain words, without a traceback."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
    args = build_parser().parse_args(arguments)
    try:
        args.function(args)
    except UserError as error:
        print(f"servestudy: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except OSError as error:  # a folder for a file, a full disk, no permission
        print(f"servestudy: {error.filename or 'input or output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

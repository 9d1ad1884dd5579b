"""Commands of the spot-check on a real serving engine."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, load_factor, named_file, positive_number
from servestudy.spotcheck.presets import PRESETS
from servestudy.spotcheck.registry import FIGURES


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("spotcheck-windows", windows, "write the windows that the spot-check replays")
    sub.add_argument("windows", nargs="+", type=Path, help="window tables")
    sub.add_argument("--per-source", type=positive_number, required=True, help="first windows of each table")
    sub.add_argument("--out", type=Path, required=True, help="CSV")

    sub = command("spotcheck-measure", measure, "replay windows on a real engine (needs torch and transformers)")
    sub.add_argument("--windows", type=Path, required=True, help="CSV of spotcheck-windows")
    sub.add_argument("--device", choices=["cpu", "cuda"], required=True)
    sub.add_argument("--preset", choices=PRESETS, required=True, help="shape of the model")
    sub.add_argument("--engine", choices=["transformers", "vllm"], default="transformers", help="default: %(default)s")
    sub.add_argument("--dtype", choices=["float32", "bfloat16"], help="default: that of the preset")
    sub.add_argument("--limit-s", type=load_factor, default=540.0, help="begin nothing later (default: %(default)s)")
    sub.add_argument("--repetitions", type=positive_number, default=1, help="of each cell (default: %(default)s)")
    sub.add_argument("--traces", required=True, help="what figures say about the traces")
    sub.add_argument("--out", type=Path, required=True, help="folder; what it has already is not measured again")

    sub = command("spotcheck-collect", collect, "make the tables of a measurement, as they are committed")
    sub.add_argument("measured", type=Path, help="folder of spotcheck-measure")
    sub.add_argument("--out", type=Path, required=True, help="folder such as data/spotcheck/cpu")

    sub = command("spotcheck-analyse", analyse, "effects, agreement with the simulators, errors of the simulator")
    sub.add_argument("--measurements", type=Path, required=True, help="folder such as data/spotcheck/cpu")
    sub.add_argument(
        "--cells", nargs="*", type=Path, default=[], help="cells of a run: <model>/<source>/<name>.parquet"
    )
    sub.add_argument("--out", type=Path, required=True, help="folder")

    sub = command("spotcheck-figure", figure, "draw a figure of the spot-check")
    sub.add_argument("figure", choices=FIGURES, metavar="FIGURE", help=", ".join(FIGURES))
    sub.add_argument("--tables", nargs="+", type=named_file, required=True, metavar="NAME=FILE", help="analyses")
    _origin_options(sub)
    sub.add_argument("--out", nargs="+", type=Path, required=True, help="files to write: .svg, .pdf, .png")

    sub = command("spotcheck-tables", tables, "write the analyses of the spot-check as CSV")
    sub.add_argument("--analyses", type=Path, required=True, help="folder of spotcheck-analyse")
    _origin_options(sub)
    sub.add_argument("--out", type=Path, required=True, help="folder")


def _origin_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--measurements", type=Path, required=True, help="folder such as data/spotcheck/cpu")
    sub.add_argument("--committed", action="store_true", help="say that the measurement is a committed one")


def windows(args: argparse.Namespace) -> None:
    from servestudy.spotcheck.episode import write_episodes

    write_episodes(args.windows, args.per_source, args.out)


def measure(args: argparse.Namespace) -> None:
    from servestudy.spotcheck.start import run_measurement

    run_measurement(
        args.windows,
        args.device,
        args.preset,
        args.traces,
        args.out,
        args.limit_s,
        args.repetitions,
        args.dtype,
        args.engine,
    )


def collect(args: argparse.Namespace) -> None:
    from servestudy.spotcheck.measurements import collect

    collect(args.measured, args.out)


def analyse(args: argparse.Namespace) -> None:
    from servestudy.spotcheck.analyse import analyse

    analyse(args.measurements, args.cells, args.out)


def figure(args: argparse.Namespace) -> None:
    from servestudy.spotcheck.registry import draw_figure, read_provenance

    origin = read_provenance(args.measurements, committed=args.committed)
    draw_figure(args.figure, dict(args.tables), origin, args.out)


def tables(args: argparse.Namespace) -> None:
    from servestudy.spotcheck.analyse import write_csvs
    from servestudy.spotcheck.registry import read_provenance

    write_csvs(args.analyses, read_provenance(args.measurements, committed=args.committed), args.out)

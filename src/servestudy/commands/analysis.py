"""Commands that analyse cells, variants and windows."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, numbered_file
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("statistics", statistics, "analyse the cells of a run, or anyone's values by window")
    _list_below(sub, ANALYSES)
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
    _list_below(sub, VARIANT_ANALYSES)
    sub.add_argument("analysis", choices=VARIANT_ANALYSES, metavar="ANALYSIS", help="one of those listed below")
    sub.add_argument("--cells", nargs="+", type=Path, required=True, help="cells of the run, or tables as `statistics`")
    sub.add_argument(
        "--variants",
        nargs="+",
        type=numbered_file,
        required=True,
        metavar="NUMBER=FILE",
        help="cells or tables of a variant, named by its SLO multiplier or requests per window; repeat the number",
    )
    sub.add_argument("--schedulers", nargs="+", help="schedulers to analyse (default: all that have values)")
    sub.add_argument("--reversals", type=Path, help="table of the analysis `reversals` of the run (slo_persistence)")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("workload", workload, "analyse the windows themselves: features, separability, distances")
    _list_below(sub, WORKLOAD_ANALYSES)
    sub.add_argument("analysis", choices=WORKLOAD_ANALYSES, metavar="ANALYSIS", help="one of those listed below")
    sub.add_argument("--windows", nargs="+", type=Path, required=True, help="window tables, one a source")
    sub.add_argument("--window-index", type=Path, required=True, help="window index (CSV) that lists their windows")
    sub.add_argument("--out", type=Path, required=True)


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


def _list_below(sub: argparse.ArgumentParser, analyses: dict) -> None:
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "analyses:\n" + "\n".join(f"  {name:24s}{analysis.text}" for name, analysis in analyses.items())

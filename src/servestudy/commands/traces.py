"""Commands of raw traces and the windows cut from them."""

import argparse
import os
from pathlib import Path

from servestudy.commands.options import NewCommand, positive_number, registered_source, whole_number


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
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
        "--stage0-windows", type=positive_number, required=True, help="windows by the first sampling rule, at most"
    )
    sub.add_argument(
        "--extension-windows", type=whole_number, required=True, help="windows by the second rule, at most"
    )
    sub.add_argument("--max-bad-share", type=float, required=True, help="stop where more rows than this are malformed")
    sub.add_argument("--out", type=Path, required=True, help="window table (Parquet)")
    sub.add_argument("--index", type=Path, required=True, help="window index (CSV)")
    sub.add_argument("--longer", type=Path, help="second window table, each window with the requests that follow it")

    sub = command("window-index", window_index, "join the window indexes of several sources")
    sub.add_argument("files", nargs="+", type=Path)
    sub.add_argument("--out", type=Path, required=True)


def synthesize(args: argparse.Namespace) -> None:
    from servestudy.traces.synthesize import synthesize

    synthesize(args.source, args.out)


def fetch(args: argparse.Namespace) -> None:
    from servestudy.traces.fetch import fetch

    fetch(registered_source(args.source), args.out, args.mirror)


def freeze(args: argparse.Namespace) -> None:
    from servestudy.windows.freeze import freeze

    source = registered_source(args.source)
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

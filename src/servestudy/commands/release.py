"""The command that makes the release of a run."""

import argparse
import json
from pathlib import Path

from servestudy.commands.options import NewCommand


def add_commands(command: NewCommand) -> None:
    """Add it to the parser."""
    sub = command("release", release, "make a folder to pass on: tables, figures, claims, metadata, licences, hashes")
    sub.add_argument("files", nargs="+", type=Path, help="files that the run made")
    sub.add_argument("--run-dir", type=Path, required=True, help="folder of the run, as results/embedded")
    sub.add_argument("--figures", type=Path, required=True, help="folder of its figures")
    sub.add_argument("--tables", type=Path, required=True, help="folder of its tables")
    sub.add_argument("--measurements", type=Path, required=True, help="folder such as data/spotcheck/cpu")
    sub.add_argument("--manifest", type=Path, required=True, help="content hashes of what the run made")
    sub.add_argument("--config", type=json.loads, required=True, metavar="JSON", help="the run's whole configuration")
    sub.add_argument("--run-options", default="", help="options of Snakemake that the run was made with")
    sub.add_argument("--out", type=Path, required=True, help="folder")


def release(args: argparse.Namespace) -> None:
    from servestudy.release.build import Run, write_release
    from servestudy.traces.registry import PROJECT, SOURCES, load_sources

    run = Run(args.run_dir, args.figures, args.tables, args.measurements, args.manifest, args.config, args.run_options)
    write_release(run, args.files, load_sources(SOURCES), PROJECT, args.out)

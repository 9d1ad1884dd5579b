"""Commands of the paper: its values, and the PDF."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, named_file


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("paper-values", paper_values, "write the values of the paper from the tables of a run")
    sub.add_argument(
        "--tables",
        nargs="+",
        type=named_file,
        required=True,
        metavar="ITEM=FILE",
        help="tables of the run by item, as audit/arms=tables/audit/arms.csv",
    )
    sub.add_argument("--title", required=True, help="what the paper says about the traces")
    sub.add_argument("--models", nargs="+", required=True, help="engine models of the run")
    sub.add_argument("--run", required=True, help="name of the run")
    sub.add_argument("--serving", type=Path, required=True, help="settings of the serving model")
    sub.add_argument("--provenance", type=Path, required=True, help="record of the measurement that the run shows")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("paper", paper, "typeset the paper with the values and figures of a run")
    sub.add_argument("--source", type=Path, default=Path("paper/paper.typ"), help="default: %(default)s")
    sub.add_argument("--values", type=Path, required=True, help="what paper-values wrote")
    sub.add_argument(
        "--figures", nargs="*", type=named_file, default=[], metavar="ITEM=FILE", help="PDF files of figures by item"
    )
    sub.add_argument("--traceability", type=Path, required=True, help="what `servestudy traceability` wrote")
    sub.add_argument("--out", type=Path, required=True)


def paper_values(args: argparse.Namespace) -> None:
    from servestudy.paper.values import write_values

    write_values(dict(args.tables), args.title, args.models, args.run, args.serving, args.provenance, args.out)


def paper(args: argparse.Namespace) -> None:
    from servestudy.paper.typeset import typeset

    typeset(args.source, args.values, dict(args.figures), args.traceability, args.out)

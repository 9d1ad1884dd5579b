"""Commands for what a run is read from: figures, tables, claims, content hashes."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand, named_file
from servestudy.plotting.registry import ALL_FIGURES
from servestudy.tabulation.registry import ALL_TABLES


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("figure", figure, "draw a figure")
    _list_below(sub, "figures, and the tables that each needs", ALL_FIGURES)
    sub.add_argument("figure", choices=ALL_FIGURES, metavar="FIGURE", help="one of those listed below")
    sub.add_argument(
        "--tables", nargs="+", type=named_file, required=True, metavar="NAME=FILE", help="tables of analyses"
    )
    sub.add_argument("--title", required=True, help="what the figure says about its traces")
    sub.add_argument("--model", required=True, help="engine model, as the figure names it")
    sub.add_argument("--out", nargs="+", type=Path, required=True, help="files to write: .svg, .pdf, .png")

    sub = command("table", table, "write a table as CSV")
    _list_below(sub, "tables, and what each needs", ALL_TABLES)
    sub.add_argument("table", choices=ALL_TABLES, metavar="TABLE", help="one of those listed below")
    sub.add_argument(
        "--tables", nargs="+", type=named_file, required=True, metavar="NAME=FILE", help="tables that it is made of"
    )
    sub.add_argument("--title", required=True, help="what the table says about its traces")
    sub.add_argument("--model", required=True, help="engine model, as the table names it")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("claims", claims, "set a study's claims beside the values of a run, with verdicts")
    sub.add_argument("--claims", type=Path, default=Path("claims/portability.yaml"), help="default: %(default)s")
    given = sub.add_mutually_exclusive_group(required=True)
    given.add_argument("--run-dir", type=Path, help="folder of a run, as results/embedded")
    given.add_argument(
        "--tables", nargs="+", type=named_file, metavar="NAME=FILE", help="tables of the published model"
    )
    sub.add_argument("--models", nargs="+", default=["published"], help="engine models of the run (default: published)")
    sub.add_argument("--title", required=True, help="what the claims table says about its traces")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("manifest", manifest, "write the content hashes of a run's outputs")
    sub.add_argument("files", nargs="+", type=Path)
    sub.add_argument("--out", type=Path, required=True)


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


def _list_below(sub: argparse.ArgumentParser, heading: str, items: dict) -> None:
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = f"{heading}:\n" + "\n".join(
        f"  {name:28s}{item.text}\n{'':30s}[{', '.join(item.reads)}]" for name, item in items.items()
    )

"""Commands for the readers of a run: where figures and tables come from, the README's list of them, pages."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand
from servestudy.errors import UserError


def add_commands(command: NewCommand) -> None:
    """Add them to the parser."""
    sub = command("traceability", traceability, "write for each figure and table of a run what it comes from")
    sub.add_argument("--run-dir", type=Path, required=True, help="folder of a run, as results/embedded")
    sub.add_argument("--figures-dir", type=Path, required=True, help="folder of its figures")
    sub.add_argument("--tables-dir", type=Path, required=True, help="folder of its tables")
    sub.add_argument("--models", nargs="+", required=True, help="its engine models; figures show the first")
    sub.add_argument("--measurements", type=Path, required=True, help="those of the spot-check, as data/spotcheck/cpu")
    sub.add_argument("--notebooks", nargs="*", type=Path, default=[], help="notebooks that show its items")
    sub.add_argument("--paper", nargs="*", type=Path, default=[], help="Typst sources that show its items")
    sub.add_argument("--run-options", default="", help="options of Snakemake that the run needs, as ' --configfile X'")
    sub.add_argument("--out", type=Path, required=True)

    sub = command("readme", readme, "renew the list of figures and tables in the README")
    sub.add_argument(
        "--traceability",
        type=Path,
        default=Path("results/embedded/traceability.csv"),
        help="that of the default run (default: %(default)s)",
    )
    sub.add_argument("--notebooks", type=Path, default=Path("notebooks"), help="their folder (default: %(default)s)")
    sub.add_argument("--readme", type=Path, default=Path("README.md"), help="file to change (default: %(default)s)")

    sub = command("table-pages", table_pages, "write tables as pages that a browser shows")
    sub.add_argument("tables", nargs="+", type=Path, metavar="CSV")
    sub.add_argument("--texts", nargs="+", required=True, metavar="TEXT", help="what each of them shows")
    sub.add_argument("--out", nargs="+", type=Path, required=True, help="a page for each")


def traceability(args: argparse.Namespace) -> None:
    from servestudy.traceability import TracedRun, write_traceability

    run = TracedRun(args.run_dir, args.figures_dir, args.tables_dir, args.models, args.measurements, args.run_options)
    write_traceability(run, args.notebooks, args.paper, args.out)


def readme(args: argparse.Namespace) -> None:
    from servestudy.readme_items import write_readme
    from servestudy.traceability import shown_in_notebooks

    write_readme(args.traceability, shown_in_notebooks(args.notebooks.glob("*.ipynb")), args.readme)


def table_pages(args: argparse.Namespace) -> None:
    from servestudy.table_pages import write_pages

    if not len(args.tables) == len(args.texts) == len(args.out):
        raise UserError(f"{len(args.tables)} tables, {len(args.texts)} texts, {len(args.out)} pages: must be as many")
    write_pages(list(zip(args.tables, args.texts, args.out, strict=True)))

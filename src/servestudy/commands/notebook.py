"""The command that makes a page of a notebook."""

import argparse
from pathlib import Path

from servestudy.commands.options import NewCommand


def add_commands(command: NewCommand) -> None:
    """Add it to the parser."""
    sub = command("notebook", notebook, "execute a notebook on a run; write it as one HTML page")
    sub.add_argument("notebook", type=Path, help="as notebooks/04_audit.ipynb")
    sub.add_argument("--run", default="embedded", help="name of the run, below results/ (default: %(default)s)")
    sub.add_argument("--out", type=Path, required=True, help="HTML file to write")


def notebook(args: argparse.Namespace) -> None:
    from servestudy.notebook_pages import write_page

    write_page(args.notebook, args.run, args.out)

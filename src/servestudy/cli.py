"""The command line: one subcommand a step of the workflow, and a few to look at single cells and windows."""

import argparse
import logging
import sys

from servestudy import __version__
from servestudy.commands import (
    analysis,
    audit,
    by_hand,
    evaluate,
    notebook,
    output,
    paper,
    release,
    simulation,
    spotcheck,
    tiers,
    traceability,
    traces,
)
from servestudy.errors import UserError

STAGES = (
    by_hand,
    evaluate,
    traces,
    simulation,
    tiers,
    audit,
    spotcheck,
    analysis,
    output,
    notebook,
    paper,
    traceability,
    release,
)


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

    def command(name: str, function, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        return sub

    for stage in STAGES:
        stage.add_commands(command)
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

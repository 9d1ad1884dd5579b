"""What the options of several subcommands share: kinds of values, the engine model, names that must be known."""

import argparse
from collections.abc import Callable
from pathlib import Path

from servestudy.errors import UserError

NewCommand = Callable[[str, Callable[[argparse.Namespace], None], str], argparse.ArgumentParser]
"""Adds a subcommand: its name, the function that runs it, what it does; returns its parser."""


def model_options(sub: argparse.ArgumentParser) -> None:
    """--model, --serving and --set, of commands that run either engine model."""
    sub.add_argument(
        "--model", choices=["published", "serving"], default="published", help="engine model (default: %(default)s)"
    )
    settings_options(sub)


def settings_options(sub: argparse.ArgumentParser) -> None:
    """--serving and --set: what the engine models run under."""
    sub.add_argument(
        "--serving",
        type=Path,
        default=Path("config/serving.yaml"),
        metavar="FILE",
        help="settings of the serving model (default: %(default)s)",
    )
    rules_option(sub)


def rules_option(sub: argparse.ArgumentParser) -> None:
    """--set, of commands that run the published model under other rules."""
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="ID=ARM",
        help="run under another rule, as head_of_line_2560=no_cap; `servestudy audit-list` has them (may be repeated)",
    )


def model_under_rules(settings: list[str]):
    """The published model under the rules of --set; raises UserError for an unknown id or arm."""
    from servestudy.audit.switches import parse_settings, rules_of
    from servestudy.published_model import PublishedModel

    return PublishedModel(rules_of(parse_settings(settings)))


def chosen_model(args: argparse.Namespace):
    """The engine model that --model, --serving and --set describe.

    Raises UserError for unknown rules, for rules of the published model on the other one, and for bad settings.
    """
    if args.model == "published":
        return model_under_rules(args.set)
    if args.set:
        raise UserError(f"--set {args.set[0]}: changes a rule of the published model; leave out --model {args.model}")
    from servestudy.serving_model import load_serving_model

    return load_serving_model(args.serving)


def one_of(what: str, name: str, known: dict):
    """The item of that name; raises UserError that lists the known names."""
    if name not in known:
        raise UserError(f"{what} {name!r} is unknown; known are {', '.join(known)}")
    return known[name]


def registered_source(name: str):
    """The row of config/sources.tsv with that id; raises UserError if there is none."""
    from servestudy.traces.registry import SOURCES, load_sources

    return one_of("source", name, load_sources(SOURCES))


def load_factor(text: str) -> float:
    """A positive finite number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def whole_number(text: str) -> int:
    """0, 1, 2, ..."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, 0 or more")
    return int(text)


def positive_number(text: str) -> int:
    """1, 2, ..."""
    if not whole_number(text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, 1 or more")
    return int(text)


def named_file(text: str) -> tuple[str, Path]:
    """NAME=FILE."""
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise argparse.ArgumentTypeError(f"found {text!r}, must be NAME=FILE")
    return name, Path(file)


def numbered_file(text: str) -> tuple[int, Path]:
    """NUMBER=FILE."""
    number, file = named_file(text)
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, must be NUMBER=FILE with a whole number, 1 or more")
    return int(number), file

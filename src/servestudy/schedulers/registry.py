"""Schedulers by name: config/schedulers.yaml says which class implements each and what it stands for."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from servestudy.errors import UserError
from servestudy.schedulers.protocol import Scheduler

REGISTRY = Path("config/schedulers.yaml")
CHECKOUT = Path(__file__).parents[3]


@cache
def registered_schedulers() -> dict[str, dict]:
    """The entries of config/schedulers.yaml by name, in the order of the file (the study's order).

    Looks in the current folder, then in the checkout that this package is installed from. The workflow has
    checked the file's content before any job runs. Raises UserError if there is none.
    """
    for folder in (Path(), CHECKOUT):
        if (folder / REGISTRY).is_file():
            return yaml.load((folder / REGISTRY).read_bytes(), yaml.CSafeLoader)
    raise UserError(f"{REGISTRY}: not found; run from the project's root folder")


def schedulers_of(model: str) -> list[str]:
    """Names of the schedulers that run in an engine model, in the order of the registry."""
    return [name for name, entry in registered_schedulers().items() if model in entry["class"]]


def primary_schedulers() -> list[str]:
    """Names of the schedulers that enter headline statistics, in the order of the registry."""
    return [name for name, entry in registered_schedulers().items() if entry["primary"]]


def make_scheduler(name: str, model: str = "published", **parameters: Any) -> Scheduler:
    """A new scheduler; raises UserError if the name is not registered, or does not run in this engine model."""
    entries = registered_schedulers()
    if name not in entries:
        raise UserError(f"scheduler {name!r} is unknown; {REGISTRY} has {', '.join(entries)}")
    if model not in entries[name]["class"]:
        raise UserError(f"scheduler {name} has no {model} form; {REGISTRY} has {', '.join(schedulers_of(model))}")
    return scheduler_class(entries[name]["class"][model])(**parameters)


def scheduler_class(path: str) -> type[Scheduler]:
    """The class at `module:Class`."""
    module, _, class_name = path.partition(":")
    return getattr(import_module(module), class_name)

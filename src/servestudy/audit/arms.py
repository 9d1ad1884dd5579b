"""What a defect of the published model is made of here: a switch with arms, or a diagnostic."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Change = Mapping[str, Mapping[str, Any]]
"""Section of Rules -> field (or scheduler, in the sections that are by scheduler) -> value."""


@dataclass(frozen=True)
class Arm:
    """One way to set a switch: what it means, and what it changes."""

    text: str
    change: Change


@dataclass(frozen=True)
class Switch:
    """A defect that can be switched.

    affects: the schedulers whose cells it can change; None: all.
    unfinished_only: it can change only cells in which some request did not complete.
    diagnostic: as of a Diagnostic, if it has one too.
    """

    statement: str
    arms: Mapping[str, Arm]
    affects: tuple[str, ...] | None = None
    unfinished_only: bool = False
    diagnostic: str | None = None


@dataclass(frozen=True)
class Diagnostic:
    """A defect that is not a rule but a property of results: `function` (in audit.diagnostics) measures it."""

    statement: str
    function: str

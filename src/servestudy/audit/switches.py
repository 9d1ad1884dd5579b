"""Choosing arms of the defects by name, and the rules that follow."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from servestudy.audit.arms import Arm
from servestudy.audit.defects import DIAGNOSTICS, SWITCHES
from servestudy.audit.rules import PUBLISHED, Rules
from servestudy.errors import UserError


def arm_of(switch_id: str, arm: str) -> Arm:
    """The arm of that name; raises UserError that lists the allowed names."""
    if switch_id in DIAGNOSTICS:
        raise UserError(
            f"{switch_id} is a property of results, not a rule that can be switched; "
            f"`servestudy audit-diagnose {switch_id}` measures it"
        )
    if switch_id not in SWITCHES:
        raise UserError(f"rule {switch_id!r} is unknown; allowed: {', '.join(SWITCHES)}")
    arms = SWITCHES[switch_id].arms
    if arm not in arms:
        raise UserError(f"rule {switch_id} has no arm {arm!r}; allowed: {', '.join(arms)}")
    return arms[arm]


def rules_of(chosen: Mapping[str, str]) -> Rules:
    """The published rules with the arms of `chosen` (switch id -> arm).

    Raises UserError for an unknown id or arm, and for two arms that set the same rule to different values.
    """
    set_by: dict[tuple[str, ...], tuple[str, Any]] = {}
    rules = PUBLISHED
    for switch_id, arm in chosen.items():
        for path, value in _leaves(arm_of(switch_id, arm).change):
            other, other_value = set_by.setdefault(path, (switch_id, value))
            if other_value != value:
                raise UserError(
                    f"{other}={chosen[other]} and {switch_id}={arm} both set {'.'.join(path)}: to {other_value} and to "
                    f"{value}; choose one of them"
                )
    for section in fields(Rules):
        changes: dict[str, Any] = {}
        for path, (_, value) in set_by.items():
            if path[0] == section.name:
                place = changes
                for part in path[1:-1]:
                    place = place.setdefault(part, {})
                place[path[-1]] = value
        if changes:
            old = getattr(rules, section.name)
            rules = replace(rules, **{section.name: changes if isinstance(old, Mapping) else replace(old, **changes)})
    return rules


def _leaves(change: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in change.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """`id=arm` texts to a mapping; raises UserError for a malformed one or an id that is set twice."""
    chosen: dict[str, str] = {}
    for text in texts:
        switch_id, equals, arm = text.partition("=")
        if not (switch_id and equals and arm):
            raise UserError(f"--set {text!r}: must be ID=ARM, as head_of_line_2560=no_cap")
        if switch_id in chosen:
            raise UserError(f"--set {switch_id} stands twice: {chosen[switch_id]} and {arm}; choose one")
        arm_of(switch_id, arm)
        chosen[switch_id] = arm
    return chosen

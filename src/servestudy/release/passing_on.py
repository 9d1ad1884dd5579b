"""Whose requests a release may hold.

A trace's licence covers the windows cut from it. The registry, config/sources.tsv, says in its column `redistribution`
what may be done. A release is careful: it holds requests of this project's own traces, and of those that may be passed
on with attribution, which it gives. Other conditions, such as a licence text beside the data, are for people to meet.
"""

from collections.abc import Iterable

from servestudy.errors import UserError
from servestudy.traces.registry import Source

WITH_ATTRIBUTION = "may be passed on with attribution"


def may_be_passed_on(source: Source) -> bool:
    """Whether a release may hold requests of the source, windows cut from it included."""
    return source.synthetic or source.redistribution.lower().startswith(WITH_ATTRIBUTION)


def sources_held(names: Iterable[str], registry: dict[str, Source]) -> set[str]:
    """Those of the sources whose requests a release may hold; raises UserError for one that is not registered."""
    held = set()
    for name in names:
        if name not in registry:
            raise UserError(
                f"source {name!r} is not in config/sources.tsv, which says what may be passed on: add its row"
            )
        if may_be_passed_on(registry[name]):
            held.add(name)
    return held

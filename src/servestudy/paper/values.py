"""All values of the paper in one JSON file, from the tables of a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.items import ITEMS, TABLE
from servestudy.paper import audit, claims, definitions, portability, spotcheck, tiers
from servestudy.paper.found import Found, Tables

READS = (*claims.READS, *portability.READS, *audit.READS, *tiers.READS, *spotcheck.READS)
"""The tables, by item, that values come from; a run with one engine model lacks those that compare both."""


def write_values(
    tables: Mapping[str, Path],
    title: str,
    models: Sequence[str],
    run: str,
    serving: Path,
    provenance: Path,
    out: Path,
) -> None:
    """Write them to `out`. Raises UserError for a table that is none of READS, for one of them that the run has but is
    not given, and for a table or record that is missing or unreadable.

    `tables`: the CSV files of the run by item (`audit/arms`); `serving`: settings of the serving model; `provenance`:
    record of the measurement that the run shows.
    """
    missing = [item for item in READS if item not in tables and set(ITEMS[TABLE, item].models) <= set(models)]
    if missing:
        raise UserError(f"--tables: lacks {', '.join(missing)}, which a run of {', '.join(models)} has")
    unknown = [item for item in tables if item not in READS]
    if unknown:
        raise UserError(f"--tables: the paper reads no {', '.join(unknown)}; it reads {', '.join(READS)}")
    found, read = Found(), Tables(tables, READS)
    definitions.add(found, serving)
    claims.add(found, read)
    portability.add(found, read)
    audit.add(found, read)
    tiers.add(found, read)
    spotcheck.add(found, read, provenance)
    content = {
        "run": {"name": run, "title": title, "models": list(models)},
        "values": found.values,
        "facts": found.facts,
        "tables": found.tables,
        "definitions": found.definitions,
    }
    with atomic_path(out) as part:
        part.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")

"""Theme: two schedulers on a real serving engine, beside what the simulators say."""

import json
from collections import Counter
from pathlib import Path

from servestudy.errors import UserError
from servestudy.paper.found import Found, Row, Tables
from servestudy.paper.wording import interval, listed, none_or, number, percent, signed

AGREEMENT, WINDOWS, SUMMARY, CELLS = (
    f"spotcheck/{name}" for name in ("agreement", "windows", "simulator_summary", "engine_cells")
)
READS = (AGREEMENT, WINDOWS, SUMMARY, CELLS)
COUNTED = "bracketed"
"""The windows that count for winners: those whose calibration found both a sustained and an unsustained rate."""
UNDECIDED = "undecided"


def add(found: Found, tables: Tables, provenance: Path) -> None:
    """When and on what was measured, which scheduler wins where, how far off the simulator is."""
    rows = tables.rows(AGREEMENT)
    if not rows:
        raise UserError("the tables of the spot-check hold no row; every run has them: delete them and run again")
    found.value("engine.measured", rows[0]["measured"], AGREEMENT)
    found.value("engine.date", measured_on(provenance), WINDOWS)
    windows = tables.rows(WINDOWS)
    found.value("engine.windows", number(len(windows), 0), WINDOWS)
    found.value("engine.bracketed", number(sum(row["bracketed"] == "True" for row in windows), 0), WINDOWS)
    found.value("engine.cells", number(len(tables.rows(CELLS)), 0), CELLS)
    _winners(found, [row for row in rows if row["windows"] == COUNTED])
    _errors(found, tables.rows(SUMMARY))


def measured_on(provenance: Path) -> str:
    """The day of a measurement as its record has it, `on a day that its record does not name` without one."""
    try:
        record = json.loads(Path(provenance).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{provenance}: not the record of a measurement ({error})") from None
    day = record.get("measured_on")
    return f"on {day}" if day else "on a day that its record does not name"


def _winners(found: Found, rows: list[Row]) -> None:
    own = [row for row in rows if row["simulator"] != "study"]
    engine = {row["source"]: row["engine_winner"] for row in own}
    sources = list(engine)
    decided = [source for source in sources if engine[source] != UNDECIDED]
    found.value("engine.sources", number(len(sources), 0), AGREEMENT)
    found.value("engine.decided", none_or(len(decided)), AGREEMENT)
    found.fact("engine.decided", bool(decided))
    found.value("engine.winners", listed([f"{engine[source]} on {source}" for source in decided]), AGREEMENT)
    agreement = Counter(row["agreement"] for row in own)
    for outcome in ("agrees", "disagrees"):
        found.value(f"engine.{outcome}", none_or(agreement[outcome]), AGREEMENT)
    found.value("engine.comparisons", number(len(own), 0), AGREEMENT)
    found.table(
        AGREEMENT,
        ("source", "simulator", "simulated", "on the engine", "agreement"),
        [
            [row["source"], row["simulator"], _effect(row, "simulated"), _effect(row, "engine"), row["agreement"]]
            for row in rows
        ],
    )


def _effect(row: Row, side: str) -> str:
    effect, low, high = (row[f"{side}_{end}"] for end in ("effect", "low", "high"))
    if effect == "undefined":
        return "not given"
    text = signed(float(effect))
    return text if "undefined" in (low, high) else f"{text} {interval(float(low), float(high))}"


def _errors(found: Found, rows: list[Row]) -> None:
    main = [row for row in rows if row["variant"] == "main"]
    for metric in ("ttft_mean_s", "throughput_rps"):
        mine = [row for row in main if row["metric"] == metric]
        found.fact(f"engine.error.{metric}", bool(mine))
        if mine:
            errors = sorted(float(row["median_absolute_error"]) for row in mine)
            text = " to ".join(dict.fromkeys(percent(error) for error in (errors[0], errors[-1])))
            found.value(f"engine.error.{metric}", text, SUMMARY)
            same, pairs = (sum(int(row[name]) for row in mine) for name in ("same_order", "n_pairs"))
            found.value(f"engine.order.{metric}", f"{number(same, 0)} of {number(pairs, 0)}", SUMMARY)

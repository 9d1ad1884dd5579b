"""What the paper reads and what it gets: the tables of a run by item, and values with the item each comes from."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servestudy.errors import UserError

DEFINITION = "definition"
"""The source of values that no run computes: constants of the code and keys of the configuration."""
NO_ROWS = "none"
"""What a table without rows holds in every cell."""
Row = Mapping[str, str]


class Tables:
    """The tables of a run as text, by item (`audit/arms`), of those in `known`. One that the run lacks has no rows."""

    def __init__(self, paths: Mapping[str, Path], known: Sequence[str]) -> None:
        self.paths, self.known = paths, known
        self._read: dict[str, list[dict[str, str]]] = {}

    def rows(self, item: str) -> list[dict[str, str]]:
        """Its rows. Raises UserError if the file is missing or holds no table, ValueError for an unknown item."""
        if item not in self.known:
            raise ValueError(f"{item} is not among the tables that the paper is said to read")
        if item not in self._read:
            self._read[item] = _rows(self.paths[item]) if item in self.paths else []
        return self._read[item]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise UserError(f"{path}: not found; run `snakemake {path} --cores 2` first") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not a readable table ({error}); delete it and run again") from None
    if not rows:
        raise UserError(f"{path}: holds no row; delete it and run again")
    own = [name for name in rows[0] if name not in ("trace_set", "model", "measured")]
    return [] if len(rows) == 1 and all(rows[0][name] == NO_ROWS for name in own) else rows


class Found:
    """The values of the paper by key, each with its source: an item of the run, or DEFINITION."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, str]] = {}
        self.facts: dict[str, bool] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.definitions: list[dict[str, str]] = []

    def value(self, key: str, text: str, source: str) -> None:
        """A value as the paper prints it. Raises ValueError for a key that is there, or for an empty text."""
        if key in self.values or not text:
            raise ValueError(f"value {key}: {text!r} from {source}")
        self.values[key] = {"text": text, "source": source}

    def fact(self, key: str, holds: bool) -> None:
        """Whether a sentence holds; the paper has another one where it does not."""
        self.facts[key] = bool(holds)

    def definition(self, key: str, text: str, meaning: str, place: str) -> None:
        """A value that is not computed but set, in the module or file `place`."""
        self.value(f"set.{key}", text, DEFINITION)
        self.definitions.append({"value": text, "meaning": meaning, "place": place})

    def table(self, item: str, columns: Sequence[str], rows: Sequence[Sequence[str]], view: str = "") -> None:
        """What the paper shows of a table: `columns` as headings, cells as text. An item may have several views."""
        key = f"{item}:{view}" if view else item
        self.tables[key] = {"source": item, "columns": list(columns), "rows": [list(row) for row in rows]}

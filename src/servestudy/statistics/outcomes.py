"""The outcome of each cell as a hash: equal for two schedulers if every request had the same times under both.

Only cells of a run hold it; a foreign table of values does not.
"""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from servestudy.errors import UserError
from servestudy.simulation import CELL_SCHEMA

KEYS = ["source", "region", "window_id", "scheduler"]


def read_outcomes(paths: Sequence[Path | str]) -> pd.DataFrame:
    """Rows of KEYS and outcome_sha256, one for all repetitions of a cell.

    Raises UserError for a file that does not hold cells, or for a cell with two outcomes.
    """
    parts = []
    for path in map(Path, paths):
        if path.suffix != ".parquet" or pq.read_schema(path).names != CELL_SCHEMA.names:
            raise UserError(
                f"{path}: not cells of a run, so nothing tells whether two schedulers served every request at the same "
                "times; give files of results/<run>/cells/<model>/"
            )
        parts.append(pq.read_table(path, columns=[*KEYS, "outcome_sha256"]).to_pandas())
    outcomes = pd.concat(parts).drop_duplicates(ignore_index=True)
    twice = outcomes.duplicated(KEYS)
    if twice.any():
        cell = " / ".join(outcomes.loc[twice, KEYS].iloc[0])
        raise UserError(f"cell {cell} has two different outcomes; give the cells of one engine model only")
    return outcomes


def groups_of_equals(outcomes: Mapping[str, Hashable]) -> list[list[str]]:
    """Groups of schedulers whose outcomes (one, or a tuple over windows) are equal; all by name."""
    groups: dict[Hashable, list[str]] = {}
    for scheduler in sorted(outcomes):
        groups.setdefault(outcomes[scheduler], []).append(scheduler)
    return list(groups.values())


def name_groups(groups: list[list[str]]) -> str:
    """The groups of two or more as text: `a = b, c = d`."""
    return ", ".join(" = ".join(group) for group in groups if len(group) > 1)

"""Splits of a source's windows into earlier and later groups.

Source: the published study. It cut BurstGPT's windows into terciles and halves by their earliest native arrival,
Azure's at a fixed calendar boundary, Bailian's into halves by position in the window list, which is not a clock. Here
each rule is applied to every source that it fits. Halves by start row are the corrected rule for traces without a
usable clock: the position in the file is one.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.window_values import WindowValues

BOUNDARY_EPOCH_S = 1715731200.0  # 2024-05-15T00:00:00Z
PUBLISHED_RULES = {"burstgpt": ("tercile", "bisection"), "azure": ("calendar",), "bailian": ("position",)}
_INDEX_COLUMNS = ("source", "window_id", "start_row", "time_s_min")


@dataclass(frozen=True)
class Split:
    """`groups[name]` holds places of windows in the study's order; no group is empty."""

    source: str
    rule: str
    groups: dict[str, np.ndarray]

    @property
    def published(self) -> bool:
        """Whether the study split this source (by the first word of its id) by this rule."""
        return self.rule in PUBLISHED_RULES.get(family(self.source), ())

    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of groups, by name."""
        return list(combinations(sorted(self.groups), 2))


def family(source: str) -> str:
    """`burstgpt`, `azure`, `bailian`, or another first word of a source's id."""
    return source.split("_")[0]


def in_study_order(sources: tuple[str, ...]) -> list[str]:
    """The study's order of single sources (burstgpt, azure, bailian), then the others by id."""
    known = list(PUBLISHED_RULES)
    return sorted(sources, key=lambda source: (*(family(source) != name for name in known), source))


def read_window_index(path: Path | str) -> pd.DataFrame:
    """`start_row`, `time_s_min` and the other columns by source and window_id, from a run's window index (CSV).

    Raises UserError if the file or a column is missing, a window is listed twice, or a number is none.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: not found; give the window index of a run, a CSV with {', '.join(_INDEX_COLUMNS)}")
    index = pd.read_csv(path, dtype={"source": str, "window_id": str})
    missing = [name for name in _INDEX_COLUMNS if name not in index.columns]
    if missing:
        raise UserError(f"{path}: no column {', '.join(missing)}; it must have {', '.join(_INDEX_COLUMNS)}")
    for name in ("start_row", "time_s_min"):
        numbers = pd.to_numeric(index[name], errors="coerce")
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise UserError(f"{path}: row {row + 1}: {name} is {index[name].iat[row]}, must be a number")
        index[name] = numbers
    twice = index.duplicated(["source", "window_id"])
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        raise UserError(f"{path}: row {row + 1}: window {index['window_id'].iat[row]} is listed twice")
    return index.set_index(["source", "window_id"])


def temporal_splits(values: WindowValues, window_index: pd.DataFrame | None) -> list[Split]:
    """All splits, sources in the study's order; without an index only those by position.

    Raises UserError if the values lack the primary metric, of which alone the study asked how it changes in time, or
    the index lacks a window of the values.
    """
    if PRIMARY_METRIC not in values.metrics:
        raise UserError(
            f"no values of {PRIMARY_METRIC}, which this analysis is of; there are {', '.join(values.metrics)}"
        )
    found = []
    for source in in_study_order(values.sources):
        windows = values.windows[source]
        by_rule = {}
        if window_index is not None:
            missing = [window for window in windows if (source, window) not in window_index.index]
            if missing:
                raise UserError(f"the window index lacks window {missing[0]} of {source}; give that of the same run")
            rows = window_index.loc[[(source, window) for window in windows]]
            start_s, start_row = rows["time_s_min"].to_numpy(), rows["start_row"].to_numpy()
            by_time = np.lexsort((windows, start_s))
            by_rule["tercile"] = _cut(by_time, ("EARLY", "MIDDLE", "LATE"))
            by_rule["bisection"] = _cut(by_time, ("EARLY", "LATE"))
            by_rule["calendar"] = {
                "BEFORE_BOUNDARY": np.flatnonzero(start_s < BOUNDARY_EPOCH_S),
                "AT_OR_AFTER_BOUNDARY": np.flatnonzero(start_s >= BOUNDARY_EPOCH_S),
            }
        by_rule["position"] = _cut(np.arange(len(windows)), ("FIRST", "SECOND"))
        if window_index is not None:
            by_rule["start_row"] = _cut(np.lexsort((windows, start_row)), ("EARLY", "LATE"))
        splits = (Split(source, rule, groups) for rule, groups in by_rule.items())
        found += [split for split in splits if all(len(group) for group in split.groups.values())]
    return found


def _cut(order: np.ndarray, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Consecutive groups of an order, cut at n * k // groups; within a group windows keep the study's order."""
    cuts = [len(order) * k // len(names) for k in range(len(names) + 1)]
    return {name: np.sort(order[start:end]) for name, (start, end) in zip(names, pairwise(cuts), strict=True)}

"""The requests of a trace as a workload of the tiers study: the frozen windows of a source, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from servestudy.tiers.workload import Workload, from_place
from servestudy.windows.frozen import read_windows


@dataclass(frozen=True, eq=False)
class TraceLengths:
    """Prompt and output lengths in the order of the trace, from a random place on, and round again at its end."""

    prompt_tokens: np.ndarray
    output_tokens: np.ndarray

    def split(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As many as there are draws, of which the first says where to begin."""
        return from_place(self.prompt_tokens, uniform), from_place(self.output_tokens, uniform)


def trace_workload(path: Path | str) -> Workload:
    """Lengths of all windows of a file, and the gaps within them relative to their mean in each window.

    A window's first request comes a mean gap after the last of the window before. Requests without tokens get one of
    each kind. Raises UserError as `read_table` does.
    """
    windows = read_windows(path)
    gaps = []
    for window in windows:
        between = np.diff(window.time_s)
        mean = between.mean()
        gaps.append(np.concatenate([[1.0], between / mean if mean > 0 else np.ones_like(between)]))
    lengths = TraceLengths(
        np.maximum(1, np.concatenate([window.prompt_tokens for window in windows])),
        np.maximum(1, np.concatenate([window.output_tokens for window in windows])),
    )
    count = sum(map(len, gaps))
    return Workload(lengths, requests_per_s=1250.0, requests=count, gaps=np.concatenate(gaps), source=windows[0].source)

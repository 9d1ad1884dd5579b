"""Which rows of a trace become windows: the two sampling rules of the published portability study.

Study: stage0_stride_window_selection_v2_streaming and ranking_portability_pinned_extension_stride_v1. With
the published row counts they give the study's 120 start rows. Rows are valid rows, counted from 0 at the
start of the file. Both rules are generalised to other numbers of windows for short traces.
"""

from dataclasses import dataclass

import numpy as np

from servestudy.errors import UserError

WINDOW_REQUESTS = 200
STAGE0_WINDOWS = 10
EXTENSION_WINDOWS = 30
EXTENSION_SEED_OFFSET = 1_000_000
STAGE0_RULE = "stage0_stride_window_selection_v2_streaming"
EXTENSION_RULE = "ranking_portability_pinned_extension_stride_v1"


@dataclass(frozen=True)
class Window:
    """One planned window: `number` counts within the source, `start_row` among its valid rows."""

    window_id: str
    number: int
    start_row: int
    evidence_class: str
    chronology_stratum: str
    sampling_algorithm: str
    sampling_seed: int


def stage0_starts(
    n_valid: int, skip_rows: int, seed: int, count: int = STAGE0_WINDOWS, size: int = WINDOW_REQUESTS
) -> list[int]:
    """Start rows of the stage-0 windows: one drawn in each of `count` equal strides after `skip_rows`."""
    return [skip_rows + draw for draw in _stride_draws(n_valid - skip_rows, count, size, seed)]


def extension_starts(
    n_valid: int,
    skip_rows: int,
    seed: int,
    pinned_starts: list[int],
    count: int = EXTENSION_WINDOWS,
    size: int = WINDOW_REQUESTS,
) -> list[int]:
    """Start rows of the extension windows: drawn in strides over what the pinned windows leave free.

    `seed` is the source's seed; the generator's is 1,000,000 higher. A window that would pass the end of its
    free interval is moved back to that end, so in a short trace two windows may overlap. Empty if nothing
    is free.
    """
    free = _free_intervals(n_valid, skip_rows, pinned_starts, size)
    if not free:
        return []
    lengths = np.array([end - start for start, end in free])
    ends = np.cumsum(lengths)  # in free rows
    starts = []
    for draw in _stride_draws(int(ends[-1]), count, size, seed + EXTENSION_SEED_OFFSET):
        interval = int(np.searchsorted(ends, draw, side="right"))
        start, end = free[interval]
        starts.append(min(start + draw - int(ends[interval] - lengths[interval]), end - size))
    return starts


def plan_windows(
    source_id: str,
    n_valid: int,
    skip_rows: int,
    seed: int,
    stage0_count: int = STAGE0_WINDOWS,
    extension_count: int = EXTENSION_WINDOWS,
    size: int = WINDOW_REQUESTS,
) -> list[Window]:
    """The windows of one source by the study's rules, as many as the trace holds without overlap.

    At most `stage0_count` and `extension_count`: first as many stage-0 windows as fit, then the largest
    number of extension windows for which the rule's windows do not overlap.
    Raises UserError if not one window fits.
    """
    available = n_valid - skip_rows
    stage0_count = min(stage0_count, max(available, 0) // size)
    if stage0_count == 0:
        raise UserError(
            f"source {source_id}: no window of {size} requests fits into its {n_valid} valid rows, of which "
            f"the first {skip_rows} are skipped; use a longer trace or a smaller skip_rows in the registry"
        )
    pinned = stage0_starts(n_valid, skip_rows, seed, stage0_count, size)
    extension: list[int] = []
    for count in range(min(extension_count, available // size - stage0_count), 0, -1):
        starts = extension_starts(n_valid, skip_rows, seed, pinned, count, size)
        if np.all(np.diff(np.sort(starts)) >= size):
            extension = starts
            break
    windows = [
        Window(f"{source_id}_stage0_w{n:02d}", n, start, "STAGE0_WINDOW", "EARLY", STAGE0_RULE, seed)
        for n, start in enumerate(pinned)
    ]
    for start, stratum in zip(extension, _strata(extension), strict=True):
        number = len(windows)
        windows.append(
            Window(
                f"{source_id}_pilot_v2_w{number:02d}",
                number,
                start,
                "PILOT_V2_NEW_WINDOW",
                stratum,
                EXTENSION_RULE,
                seed + EXTENSION_SEED_OFFSET,
            )
        )
    return windows


def _stride_draws(length: int, count: int, size: int, seed: int) -> list[int]:
    """One draw in each of `count` equal strides of 0..length; the last stride takes the remainder."""
    rng = np.random.default_rng(seed)
    stride = length // count
    draws = []
    for i in range(count):
        low = i * stride
        high = length if i == count - 1 else low + stride
        draws.append(int(rng.integers(low, high - size + 1)) if high - size > low else low)
    return draws


def _free_intervals(n_valid: int, skip_rows: int, pinned_starts: list[int], size: int) -> list[tuple[int, int]]:
    """What the pinned windows leave of skip_rows..n_valid, without pieces shorter than a window."""
    edges = [(start, start + size) for start in sorted(pinned_starts)] + [(n_valid, n_valid)]
    intervals, begin = [], 0
    for start, end in edges:
        intervals.append((max(begin, skip_rows), start))
        begin = end
    return [(start, end) for start, end in intervals if end - start >= size]


def _strata(starts: list[int]) -> list[str]:
    """EARLY, MIDDLE and LATE thirds in the order of start rows (the study's label for the extension)."""
    rank = np.argsort(np.argsort(starts))
    return [("EARLY", "MIDDLE", "LATE")[3 * int(r) // len(starts)] for r in rank]

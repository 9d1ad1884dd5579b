"""Progress of long steps: a bar on a terminal, one line each 5 % in a log file."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def progress_meter(total: int, label: str, unit: str = "it") -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of newly finished units.

    `total` may be 0 where it is not known; then a log gets a line each 30 s instead of each 5 %.
    """
    if sys.stderr.isatty():
        from tqdm import tqdm  # not needed in the many short jobs of a workflow

        with tqdm(total=total or None, desc=label, unit=unit, unit_scale=True, leave=False) as bar:
            yield bar.update
        return

    started = last_line = time.monotonic()
    done = 0
    printed_share = 0

    def advance(amount: int) -> None:
        nonlocal done, printed_share, last_line
        done += amount
        now = time.monotonic()
        share = done * 20 // total if total else 0
        if share > printed_share or (not total and now - last_line >= 30):
            printed_share, last_line = share, now
            percent = f"{share * 5} %, " if total else ""
            print(f"{label}: {percent}{done} {unit}, {now - started:.1f} s", file=sys.stderr, flush=True)

    yield advance


def progress(items: Iterable[T], total: int, label: str) -> Iterator[T]:
    """Pass items through while showing progress on stderr."""
    with progress_meter(total, label) as advance:
        for item in items:
            yield item
            advance(1)

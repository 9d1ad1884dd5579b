"""Episodes: the requests of a frozen window, as an engine replays them. Read from a CSV, so that a machine with a GPU
needs no more than the engine's own packages."""

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.seeds import stream
from servestudy.spotcheck.replay import Job

COLUMNS = ("source", "window_id", "window_number", "arrival_s", "prompt_tokens", "output_tokens", "slack_s")
FIRST_TOKEN_ID = 3
"""Those below have a meaning in many vocabularies."""


@dataclass(frozen=True)
class Episode:
    """Arrays with one entry a request, by arrival. `slack_s`: from arrival to the published study's deadline.
    `length_scale`: by what the trace's lengths are divided."""

    source: str
    window_id: str
    window_number: int
    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    slack_s: np.ndarray
    length_scale: float = 1.0

    def __len__(self) -> int:
        return len(self.arrival_s)

    @cached_property
    def sha256(self) -> str:
        """Of the contents."""
        columns = (self.arrival_s, self.prompt_tokens, self.output_tokens, self.slack_s)
        return hashlib.sha256(b"".join(np.ascontiguousarray(c, dtype="<f8").tobytes() for c in columns)).hexdigest()

    def shortened(self, tokens_per_request: float, requests: int) -> "Episode":
        """The first `requests`; if they have more tokens each on average, their lengths divided by what it takes.

        At least one prompt and one output token are left.
        """
        part = slice(0, requests)
        prompt, output = self.prompt_tokens[part], self.output_tokens[part]
        scale = max(1.0, float(np.mean(prompt + output)) / tokens_per_request)
        return replace(
            self,
            arrival_s=self.arrival_s[part],
            prompt_tokens=np.maximum(1, np.rint(prompt / scale)).astype(int),
            output_tokens=np.maximum(1, np.rint(output / scale)).astype(int),
            slack_s=self.slack_s[part],
            length_scale=scale,
        )

    def time_factor(self, rate_rps: float) -> float:
        """What all times are multiplied by to get that many arrivals a second; one factor keeps the burstiness.

        Raises UserError if all requests arrive at once.
        """
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        if not span_s > 0:
            raise UserError(f"{self.window_id}: all requests arrive at one time, so it has no arrival rate")
        return (len(self) - 1) / span_s / rate_rps

    def jobs(self, rate_rps: float | None, vocabulary: int, tbt_s: float = 0.0) -> list[Job]:
        """The requests at a rate, or all at time 0 for None. Prompts are random token ids, the same in every replay."""
        factor = 0.0 if rate_rps is None else self.time_factor(rate_rps)
        arrivals = (self.arrival_s - self.arrival_s[0]) * factor
        tokens = stream("spotcheck prompts", self.source, self.window_id)
        return [
            Job(number, float(arrival_s), tokens.integers(FIRST_TOKEN_ID, vocabulary, int(n)).tolist(), int(out), tbt_s)
            for number, (arrival_s, n, out) in enumerate(
                zip(arrivals, self.prompt_tokens, self.output_tokens, strict=True)
            )
        ]

    def published_deadline_s(self, rate_rps: float) -> np.ndarray:
        """Deadlines of the published study: their slack shrinks with the time axis."""
        return (self.arrival_s - self.arrival_s[0] + self.slack_s) * self.time_factor(rate_rps)


def write_episodes(windows: Sequence[Path], per_source: int, out: Path) -> None:
    """The first windows of each window table, by number, as one CSV; deadlines by the published study's rule."""
    from servestudy.windows.frozen import read_windows
    from servestudy.workload import synthesize

    with atomic_path(out) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for path in windows:
            for window in read_windows(path)[:per_source]:
                work = synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number)
                rows = zip(
                    work.arrival_s.tolist(),
                    work.prompt_tokens.tolist(),
                    work.output_tokens.tolist(),
                    (work.deadline_s - work.arrival_s).tolist(),
                    strict=True,
                )
                writer.writerows((window.source, window.window_id, window.number, *map(repr, row)) for row in rows)


def read_episodes(path: Path | str) -> list[Episode]:
    """Episodes of a CSV that `write_episodes` made, in its order.

    Raises UserError if the file cannot be read, lacks a column or holds a value that is no number.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; make it with `servestudy spotcheck-windows`") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a readable CSV ({error})") from None
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise UserError(f"{path}: no rows or no column {', '.join(missing)}; `servestudy spotcheck-windows` makes it")
    by_window: dict[tuple[str, str, str], list[dict]] = {}
    for row in rows:
        by_window.setdefault((row["source"], row["window_id"], row["window_number"]), []).append(row)
    try:
        return [
            Episode(source, window_id, int(number), *(np.array([float(r[c]) for r in group]) for c in COLUMNS[3:]))
            for (source, window_id, number), group in by_window.items()
        ]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path}: a value is no number ({error}); make the file again") from None

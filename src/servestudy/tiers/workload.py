"""The requests of a run: arrivals, lengths and tiers, from the study's shared random stream or from separate ones."""

import math
import random
from bisect import bisect_right
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from servestudy.errors import UserError
from servestudy.seeds import stream
from servestudy.tiers.mixes import ROUND_ROBIN, cumulative

SHARED, SEPARATE = "shared", "separate"
LONGEST_GAP = 3.0  # the study's generator clips each gap at three mean gaps
MEAN_CLIPPED_GAP = 1 - math.exp(-LONGEST_GAP)


class Lengths(Protocol):
    def split(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prompt tokens and output tokens from draws in [0, 1)."""


@dataclass(frozen=True, eq=False)
class Workload:
    """What arrives, before tiers: `requests_per_s` is nominal, since clipped gaps are 5 % shorter on average.

    `arrivals_cv`: coefficient of variation of the gaps; 1 is Poisson with clipped gaps, else Gamma without clipping.
    `gaps`: of a trace, 1 on average, used in turn instead of drawn ones, from a random place on; `source`: its name.
    """

    lengths: Lengths
    requests_per_s: float
    requests: int
    arrivals_cv: float = 1.0
    gaps: np.ndarray | None = None
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("requests_per_s", "requests", "arrivals_cv"):
            if not getattr(self, name) > 0 or math.isinf(getattr(self, name)):
                raise UserError(f"workload: {name} is {getattr(self, name)}; allowed: a finite number above 0")


@dataclass(frozen=True)
class Requests:
    """One array entry a request, in arrival order."""

    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    tier: np.ndarray

    def __len__(self) -> int:
        return len(self.arrival_s)


def draw(workload: Workload, mix: str, tiers: int, seed: int, streams: str = SHARED) -> Requests:
    """Draw the requests of a run.

    Raises UserError for an unknown mix or stream, or for shared streams with Gamma arrivals (the study has none).
    """
    sums = cumulative(mix, tiers)
    if streams == SHARED:
        arrival_s, uniform_length, tier = _shared(workload, mix, sums, seed)
    elif streams == SEPARATE:
        arrival_s, uniform_length, tier = _separate(workload, mix, sums, seed)
    else:
        raise UserError(f"unknown random streams {streams!r}; allowed: {SHARED}, {SEPARATE}")
    prompt, output = workload.lengths.split(uniform_length)
    return Requests(arrival_s, prompt, output, tier)


def _shared(workload: Workload, mix: str, sums: list[float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gap and tier of a request come from one generator in turn, so one tier draws other arrivals than two."""
    if workload.arrivals_cv != 1:
        raise UserError(f"workload: arrivals_cv is {workload.arrivals_cv} with shared streams; use separate streams")
    if workload.gaps is not None:
        raise UserError(f"the trace {workload.source} with shared streams; use separate streams")
    generator = random.Random(seed)
    draws_tier = len(sums) > 1 and mix != ROUND_ROBIN
    now, arrivals, tier = 0.0, [], []
    for number in range(workload.requests):
        gap = -math.log(1.0 - generator.random()) / workload.requests_per_s
        now += min(gap, LONGEST_GAP / workload.requests_per_s)
        arrivals.append(now)
        tier.append(bisect_right(sums, generator.random()) if draws_tier else number % len(sums))
    lengths = np.random.RandomState(seed).random_sample(workload.requests)
    return np.array(arrivals), lengths, np.array(tier)


def _separate(workload: Workload, mix: str, sums: list[float], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals, lengths and the uniform draw behind each tier are the same for every K and mix of a seed."""
    arrivals, lengths, tiers = (stream("tiers", seed, what) for what in ("arrivals", "lengths", "tiers"))
    uniform_length, uniform_tier = lengths.random(workload.requests), tiers.random(workload.requests)
    if workload.gaps is not None:
        gaps = from_place(workload.gaps, uniform_length)
    elif workload.arrivals_cv == 1:
        gaps = np.minimum(arrivals.standard_exponential(workload.requests), LONGEST_GAP)
    else:
        shape = workload.arrivals_cv**-2
        gaps = arrivals.standard_gamma(shape, workload.requests) / shape
    if mix == ROUND_ROBIN:
        tier = np.arange(workload.requests) % len(sums)
    else:
        tier = np.searchsorted(sums, uniform_tier, side="right")
    return np.cumsum(gaps) / workload.requests_per_s, uniform_length, tier


def from_place(column: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """As many values of a trace's column as there are draws, in turn, from where the first draw says."""
    return np.resize(np.roll(column, -int(uniform[0] * len(column))), len(uniform))

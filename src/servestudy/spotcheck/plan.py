"""Which cells are measured, the most valuable first, so that a run that is cut keeps what it has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servestudy.spotcheck.episode import Episode
from servestudy.spotcheck.presets import Preset

MAIN_LOADS = (1.05, 0.9)
"""Multiples of the rate that the engine sustains. The schedulers part near it; below 0.7 nothing differs."""
LOW_LOAD = 0.7
MAIN, AS_PUBLISHED, TIGHT = "main", "as_published", "tight_kv"


@dataclass(frozen=True)
class Cell:
    """One replay. `variant`: main; as_published, with the published client and its SLAI; tight_kv, with little KV."""

    source: str
    window_number: int
    variant: str
    load: float
    arm: str
    repetition: int = 0

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.source}.{self.window_number:02d}.{self.variant}.{self.load:g}.{self.arm}.{self.repetition}"

    def kv_tokens(self, preset: Preset) -> int:
        """KV capacity."""
        return preset.tight_kv_tokens if self.variant == TIGHT else preset.kv_tokens


Pair = tuple[Episode, tuple[Cell, Cell]]


def pairs(episodes: Sequence[Episode], repetitions: int = 1) -> Iterator[Pair]:
    """Both arms of a condition back to back, their order alternating.

    First the first window of each source at the main loads, then the published protocol and little KV on it, then the
    further windows, then the low load, then repetitions.
    """
    rounds: dict[int, list[Episode]] = {}
    seen: dict[str, int] = {}
    for episode in episodes:
        place = seen[episode.source] = seen.get(episode.source, -1) + 1
        rounds.setdefault(place, []).append(episode)

    def conditions() -> Iterator[tuple[Episode, str, float]]:
        for place, of_round in rounds.items():
            for load in MAIN_LOADS:
                yield from ((episode, MAIN, load) for episode in of_round)
            if place == 0:
                yield from ((episode, AS_PUBLISHED, MAIN_LOADS[0]) for episode in of_round)
                yield of_round[0], TIGHT, MAIN_LOADS[1]
        for of_round in rounds.values():
            yield from ((episode, MAIN, LOW_LOAD) for episode in of_round)

    number = 0
    for repetition in range(repetitions):
        for episode, variant, load in conditions():
            suffix = "_as_published" if variant == AS_PUBLISHED else ""
            both = [
                Cell(episode.source, episode.window_number, variant, load, arm + suffix, repetition)
                for arm in ("fcfs", "slai")
            ]
            yield episode, tuple(both[:: -1 if number % 2 else 1])
            number += 1

"""The decoding requests of a replica, in cohorts that are served in the same iterations.

The decodes of a cohort grow in lock step, one token a tick. So the blocks that a tick takes depend only on how many of
them are in each phase modulo the block size, and a tick, or many, costs no loop over requests.
"""

import sys
from collections.abc import Set
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servestudy.engine.outcome import Progress


class Cohort:
    """Decodes that are served in the same iterations. Their KV is counted in the cache's blocks too.

    Attributes
    ----------
    held: not served at present.
    ticks: iterations in which it was served.
    size, tokens: number of its decodes, and the KV tokens that they hold.
    finishing: heap of (tick of the last token, ...), one entry a decode, and some that no longer stand.
    """

    __slots__ = ("_block_tokens", "_phases", "finishing", "held", "size", "ticks", "tokens")

    def __init__(self, block_tokens: int, held: bool = False):
        self.held = held
        self.ticks = self.size = self.tokens = 0
        self.finishing: list[tuple] = []
        self._block_tokens = block_tokens
        self._phases = [0] * block_tokens  # decodes by offset (tokens less ticks) modulo block size

    def start(self, tokens: int) -> int:
        """From the next tick on a request of `tokens` grows. Returns its offset, tokens less ticks."""
        offset = tokens - self.ticks
        self.tokens += tokens
        self.size += 1
        self._phases[offset % self._block_tokens] += 1
        return offset

    def stop(self, offset: int) -> int:
        """From the next tick on the request of that offset keeps its size. Returns its tokens."""
        tokens = offset + self.ticks
        self.tokens -= tokens
        self.size -= 1
        self._phases[offset % self._block_tokens] -= 1
        return tokens

    def blocks_of_tick(self, number: int = 0) -> int:
        """Blocks that the next tick takes, or the one that comes `number` later."""
        return self._phases[(-self.ticks - number) % self._block_tokens]

    def tick(self, times: int = 1) -> int:
        """Every decode makes a token, `times` over. Returns the blocks that this takes."""
        block_tokens, phases = self._block_tokens, self._phases
        if times == 1:
            blocks = phases[-self.ticks % block_tokens]
            self.ticks += 1
            self.tokens += self.size
            return blocks
        cycles, part = divmod(times, block_tokens)
        blocks = cycles * self.size
        if part:
            first = (1 - self.ticks - part) % block_tokens  # phases go downwards as ticks go up
            end = first + part
            blocks += sum(phases[first:end])
            if end > block_tokens:
                blocks += sum(phases[: end - block_tokens])
        self.ticks += times
        self.tokens += times * self.size
        return blocks


class Decodes:
    """Cohorts by number, and which are served.

    Attributes
    ----------
    served: cohorts that are not held, without some empty ones.
    held: numbers of the held cohorts.
    count: number of decodes that are served.
    changed: the decodes that are served have changed since this was last reset.
    """

    __slots__ = ("_block_tokens", "_cohorts", "changed", "count", "first", "held", "served")

    def __init__(self, block_tokens: int):
        self._block_tokens = block_tokens
        self.first = Cohort(block_tokens)
        self._cohorts = {0: self.first}
        self.served = [self.first]
        self.held: Set[int] = frozenset()
        self.count = 0
        self.changed = True

    def cohort(self, number: int) -> Cohort:
        """The cohort of that number, a new one if there is none."""
        cohort = self._cohorts.get(number)
        if cohort is None:
            cohort = self._cohorts[number] = Cohort(self._block_tokens, number in self.held)
        return cohort

    def hold(self, numbers: Set[int]) -> None:
        """Serve all cohorts but these."""
        numbers = frozenset(numbers)
        cohorts = self._cohorts
        for number in numbers ^ self.held:
            cohort = cohorts.get(number)
            if cohort is not None:
                cohort.held = number in numbers
                self.count += -cohort.size if cohort.held else cohort.size
        self.held = numbers
        self.served = [cohort for cohort in cohorts.values() if cohort.size and not cohort.held]
        self.changed = True

    def start(self, p: "Progress") -> None:
        """From the next tick of its cohort on a request decodes."""
        cohort = p.cohort
        p.kv_offset = cohort.start(p.kv_tokens)
        p.due = (cohort.ticks + p.output_tokens - p.made, p.order, p)
        heappush(cohort.finishing, p.due)
        if not cohort.held:
            self.count += 1
            if cohort.size == 1 and cohort not in self.served:
                self.served.append(cohort)
        self.changed = True

    def stop(self, p: "Progress") -> None:
        """A request decodes no more; what it has made and holds is written down."""
        cohort = p.cohort
        p.made = p.output_tokens - p.due[0] + cohort.ticks
        p.kv_tokens = cohort.stop(p.kv_offset)
        p.due = None
        self.count -= not cohort.held
        self.changed = True

    def move(self, p: "Progress", number: int) -> None:
        """To the cohort of that number."""
        cohort = self.cohort(number)
        if p.cohort is cohort:
            return
        decodes = p.due is not None
        if decodes:
            self.stop(p)
        p.cohort = cohort
        if decodes:
            self.start(p)

    def kv_tokens(self) -> int:
        """KV tokens that the decodes served hold."""
        tokens = 0
        for cohort in self.served:
            tokens += cohort.tokens
        return tokens

    def blocks_of_tick(self) -> int:
        """Blocks that the decodes served need for one more token each."""
        blocks = 0
        for cohort in self.served:
            blocks += cohort.blocks_of_tick()
        return blocks

    def tick(self, times: int, done: list["Progress"]) -> int:
        """Every decode served makes a token, `times` over. Adds to `done` those that have made all; returns blocks."""
        blocks = 0
        for cohort in self.served:
            blocks += cohort.tick(times)
            finishing = cohort.finishing
            while finishing and finishing[0][0] <= cohort.ticks:
                entry = heappop(finishing)
                if entry[2].due is entry:
                    done.append(entry[2])
        return blocks

    def iterations_to_completion(self) -> int:
        """How many iterations the decodes served last until the first of them is done."""
        least = sys.maxsize
        for cohort in self.served:
            if cohort.size:
                finishing = cohort.finishing
                while finishing[0][2].due is not finishing[0]:
                    heappop(finishing)
                least = min(least, finishing[0][0] - cohort.ticks)
        return least

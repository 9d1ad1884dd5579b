"""Times of iterations in which only the same requests decode, in closed form."""

import math


class AlikeIterations:
    """Each reads more KV than the one before, by one token a decode, so their times add up to a square.

    After `done` of them, counted from the last change of the batch, it is origin + done * (linear + square * done).
    """

    __slots__ = ("_linear_s", "_origin_s", "_square_s", "done")

    def __init__(self):
        self._origin_s = self._linear_s = self._square_s = 0.0
        self.done = 0

    def begin(self, time_s: float, first_s: float, more_s: float) -> None:
        """From `time_s` on; the first takes `first_s`, each one `more_s` more than the one before."""
        self.done = 0
        self._origin_s = time_s
        self._square_s = more_s / 2
        self._linear_s = first_s - self._square_s

    def add(self, iterations: int) -> float:
        """Do so many more. Returns when they end."""
        self.done = done = self.done + iterations
        return self._origin_s + done * (self._linear_s + self._square_s * done)

    def cut(self, iterations: int, limit_s: float) -> int:
        """Of the last `iterations` done, keep the first and those that begin before `limit_s`. Returns how many."""
        origin_s, linear_s, square_s = self._origin_s, self._linear_s, self._square_s
        last = self.done
        first = done = last - iterations + 1
        gap_s = limit_s - origin_s
        if gap_s > 0:  # the root of the closed form, right but for rounding
            done = max(first, int(2 * gap_s / (linear_s + math.sqrt(linear_s**2 + 4 * square_s * gap_s))))
        while done > first and origin_s + (done - 1) * (linear_s + square_s * (done - 1)) >= limit_s:
            done -= 1
        while done < last and origin_s + done * (linear_s + square_s * done) < limit_s:
            done += 1
        self.done = done
        return done - first + 1

"""The clock of a replay: real time, processor time, or a virtual one that steps advance by a cost model."""

import time
from collections.abc import Callable


class RealClock:
    """Seconds since `start`."""

    def start(self) -> None:
        """Time 0 is now."""
        self._start_s = time.perf_counter()

    def now_s(self) -> float:
        return time.perf_counter() - self._start_s

    def wait_until(self, time_s: float) -> None:
        """Sleep until then."""
        time.sleep(max(0.0, time_s - self.now_s()))

    def step_took(self, tokens: int) -> None:
        """The step has taken its time already."""


class ProcessorClock:
    """Processor time of the calling thread; waits pass at once.

    For an engine that computes in that thread alone: on an idle machine it is real time, on a shared one the other
    users' share is left out, which may be larger than the difference between two schedulers.
    """

    def start(self) -> None:
        """Time 0 is now."""
        self._start_s = time.thread_time()

    def now_s(self) -> float:
        return time.thread_time() - self._start_s

    def wait_until(self, time_s: float) -> None:
        """Pass over the time until then."""
        self._start_s -= max(0.0, time_s - self.now_s())

    def step_took(self, tokens: int) -> None:
        """The step has taken its time already."""


class VirtualClock:
    """Stands still but for waits and for steps, which take `step_s(tokens)` seconds."""

    def __init__(self, step_s: Callable[[int], float]) -> None:
        self._time_s = 0.0
        self._step_s = step_s

    def start(self) -> None:
        """Time 0 is when it was made."""

    def now_s(self) -> float:
        return self._time_s

    def wait_until(self, time_s: float) -> None:
        self._time_s = max(self._time_s, time_s)

    def step_took(self, tokens: int) -> None:
        self._time_s += self._step_s(tokens)


Clock = RealClock | ProcessorClock | VirtualClock

"""A cluster of replicas in SimPy: arrivals, dispatch, batches, moves that take time, and rules that act periodically.

One order of events: by time, and at equal time by creation. All arrivals are created first, in the order of the trace.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import simpy


class Request(Protocol):
    arrival_s: float


class Replica(Protocol):
    """What a cluster drives.

    `busy`: it must not be looked at before the time it asked for, as nothing can change what it does until then.
    `advance` does what is due at a time and returns the seconds after which it must be looked at again; inf: when
    something is put into it.
    """

    index: int

    @property
    def busy(self) -> bool: ...

    def enqueue(self, request: Request) -> None: ...

    def advance(self, now_s: float) -> float: ...


class Cluster:
    """Drives replicas; `choose(request)` returns the replica that an arriving request goes to, at once."""

    def __init__(self, replicas: Sequence[Replica], choose: Callable[[Request], Replica]) -> None:
        self.replicas = replicas
        self.arrived = 0  # requests so far
        self._choose = choose
        self._env = simpy.Environment()
        self._looks: list[simpy.Event | None] = [None] * len(replicas)
        self._pending = 0  # looks, arrivals and moves to come; periodic rules alone make no request go on

    @property
    def now_s(self) -> float:
        return self._env.now

    def every(self, interval_s: float, act: Callable[[float], None]) -> None:
        """Call `act(now_s)` after each interval, first after one. Times add up in floating point, as a timer's do."""
        self._env.process(self._periodic(interval_s, act))

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Call `act()` after a delay; the run does not end before."""
        self._pending += 1
        event = self._env.timeout(delay_s)
        event.callbacks.append(partial(self._do, act))

    def wake(self, replica: Replica) -> None:
        """Look at a replica now, after the events that are due now already, unless it is busy."""
        if not replica.busy:
            self._look_after(replica, 0.0)

    def run(self, requests: Iterable[Request], time_limit_s: float = math.inf) -> float:
        """Simulate until nothing can happen to any request any more; return the time of the last event handled.

        The first event later than `time_limit_s` is still handled, as in the simulator of the published tiers study.
        Requests may be left where no event reaches them. Raises ValueError for arrivals that are not in order.
        """
        last = 0.0
        for request in requests:
            if not request.arrival_s >= last:
                raise ValueError(f"arrival at {request.arrival_s} s after one at {last} s; arrivals must be in order")
            last = request.arrival_s
            self._env.timeout(last, request).callbacks.append(self._arrive)
            self._pending += 1
        step = self._env.step
        while self._pending and self._env.now <= time_limit_s:
            step()
        return self._env.now

    def _do(self, act: Callable[[], None], _: simpy.Event) -> None:
        self._pending -= 1
        act()

    def _periodic(self, interval_s: float, act: Callable[[float], None]) -> Iterator[simpy.Event]:
        while True:
            yield self._env.timeout(interval_s)
            act(self._env.now)

    def _arrive(self, event: simpy.Event) -> None:
        self._pending -= 1
        self.arrived += 1
        request = event.value
        replica = self._choose(request)
        replica.enqueue(request)
        self.wake(replica)

    def _look_after(self, replica: Replica, delay_s: float) -> None:
        """Plan the next look at a replica; one that is planned already lapses."""
        event = self._env.timeout(delay_s)
        self._pending += self._looks[replica.index] is None
        self._looks[replica.index] = event
        event.callbacks.append(partial(self._look, replica))

    def _look(self, replica: Replica, event: simpy.Event) -> None:
        if self._looks[replica.index] is not event:
            return
        self._looks[replica.index] = None
        self._pending -= 1
        delay_s = replica.advance(self._env.now)
        if delay_s < math.inf:
            self._look_after(replica, delay_s)

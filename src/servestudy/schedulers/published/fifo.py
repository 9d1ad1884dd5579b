"""First in, first out; a request that does not fit is passed over."""

from collections.abc import Iterable

from servestudy.schedulers.protocol import ReplicaView, Request
from servestudy.schedulers.published.greedy import GreedyScheduler


class Fifo(GreedyScheduler):
    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        return view.waiting

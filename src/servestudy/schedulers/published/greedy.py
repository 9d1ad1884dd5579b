"""Greedy admission: go through the queue once in some order, admit what fits, skip what does not."""

from bisect import insort
from collections.abc import Collection, Iterable

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request, Scheduler


class GreedyScheduler(Scheduler):
    """Admit in the order of `ordered`. There is no head-of-line blocking and no state between steps.

    A decision stands until a request arrives or completes: whoever did not fit will not fit while slots stay
    taken and KV only grows.
    """

    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        """The waiting requests, first candidate first."""
        raise NotImplementedError

    def decide(self, view: ReplicaView) -> Action:
        limits = view.limits
        slots = min(limits.max_num_seqs, limits.max_num_batched_tokens) - view.running_count
        order = self.ordered(view)  # also where nothing can be admitted: it takes note of new arrivals
        if slots <= 0 or not view.waiting_count:
            return WAIT
        kv_left = limits.max_kv_tokens - view.kv_tokens
        admit = []
        for request in order:
            if request.prompt_tokens <= kv_left:
                admit.append(request.request_id)
                kv_left -= request.prompt_tokens
                if len(admit) == slots:
                    break
        return Action(admit, valid_steps=UNTIL_EVENT)


class FixedOrderScheduler(GreedyScheduler):
    """Greedy admission in an order that does not change with time: the queue is kept sorted.

    Requests with equal keys keep their queue order.
    """

    def key(self, request: Request) -> tuple:
        """Sort key; smaller is earlier."""
        raise NotImplementedError

    def reset(self) -> None:
        self._joined = 0
        self._sorted: list[tuple[tuple, int, Request]] = []

    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        for request in view.joined:
            insort(self._sorted, (self.key(request), self._joined, request))
            self._joined += 1
        return (request for _, _, request in self._sorted)

    def decide(self, view: ReplicaView) -> Action:
        action = super().decide(view)
        self.forget(action.admit)
        return action

    def forget(self, request_ids: Collection[int]) -> None:
        """Drop admitted requests from the sorted queue."""
        if request_ids:
            admitted = set(request_ids)
            self._sorted = [entry for entry in self._sorted if entry[2].request_id not in admitted]

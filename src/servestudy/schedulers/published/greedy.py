"""Greedy admission: go through the queue once in some order, admit what fits, skip what does not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, ReplicaView, Request, Scheduler
from servestudy.schedulers.published.estimates import STEPS_PER_PROMPT_TOKEN, service_steps
from servestudy.schedulers.published.sorted_queue import SortedQueue


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
        if slots <= 0 or not view.waiting_count:
            return WAIT
        kv_left = limits.max_kv_tokens - view.kv_tokens
        admit = []
        for request in self.ordered(view):
            if request.prompt_tokens <= kv_left:
                admit.append(request.request_id)
                kv_left -= request.prompt_tokens
                if len(admit) == slots:
                    break
        return Action(admit, valid_steps=UNTIL_EVENT)


class FixedOrderScheduler(GreedyScheduler):
    """Greedy admission in an order that does not change with time. Equal keys keep their queue order."""

    def key(self, request: Request) -> tuple:
        """Sort key; smaller is earlier."""
        raise NotImplementedError

    def reset(self) -> None:
        self._queue = SortedQueue(self.key)

    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        return self._queue

    def decide(self, view: ReplicaView) -> Action:
        self._queue.add(view.joined)
        action = super().decide(view)
        self._queue.remove(action.admit)
        return action


@dataclass
class TimedOrderScheduler(GreedyScheduler):
    """Greedy admission in an order that may change with time: sorted in each decision, from the last one's order.

    `waiting` has each request with its estimated service in steps.
    """

    steps_per_prompt_token: float = STEPS_PER_PROMPT_TOKEN

    def key_at(self, now_s: float) -> Callable[[tuple[Request, float]], tuple]:
        """Sort key at this moment; smaller is earlier; ends in the id, so that no two are equal."""
        raise NotImplementedError

    def reset(self) -> None:
        self.waiting: list[tuple[Request, float]] = []

    def ordered(self, view: ReplicaView) -> Iterable[Request]:
        self.waiting.sort(key=self.key_at(view.time_s))
        return [request for request, _ in self.waiting]

    def decide(self, view: ReplicaView) -> Action:
        self.waiting += [(request, service_steps(request, self.steps_per_prompt_token)) for request in view.joined]
        action = super().decide(view)
        if action.admit:
            self.waiting = [entry for entry in self.waiting if entry[0].request_id not in action.admit]
        return action

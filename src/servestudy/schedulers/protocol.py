"""What a scheduler sees and what it answers: the one protocol of both engine models.

A scheduler sees what a real one can see. The true output length is not among it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

UNTIL_EVENT = sys.maxsize
"""`valid_steps` of a decision that stands until a request arrives or completes."""


class Request(NamedTuple):
    """A request as a scheduler knows it. Times are absolute simulation times in seconds."""

    request_id: int
    arrival_s: float
    prompt_tokens: int
    predicted_output_tokens: int
    deadline_s: float
    weight: float
    class_id: str


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """Capacity of one replica. `max_num_batched_tokens` bounds the sequences of a step in the published model."""

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 4096
    max_kv_tokens: int = 131_072

    def fits(self, running: int, kv_tokens: int, extra_kv_tokens: int) -> bool:
        """May one more request, which brings `extra_kv_tokens`, join `running` requests?"""
        return (
            running + 1 <= self.max_num_seqs
            and kv_tokens + extra_kv_tokens <= self.max_kv_tokens
            and running + 1 <= self.max_num_batched_tokens
        )


class ReplicaView:
    """The state of one replica at the start of a step. For reading only.

    Attributes
    ----------
    step, time_s: index and start time of the step.
    waiting_count, running_count: number of waiting and of running requests.
    kv_tokens: KV tokens of all running requests.
    limits: the replica's capacity.
    joined: requests that entered the queue since the last decision, in queue order.
    finished: ids of the requests that completed since the last decision.
    tokens_made: function of a running request's id: output tokens that it has made before this step.
    """

    __slots__ = (
        "_queue",
        "_running",
        "finished",
        "joined",
        "kv_tokens",
        "limits",
        "running_count",
        "step",
        "time_s",
        "tokens_made",
        "waiting_count",
    )

    def __init__(
        self,
        queue: Mapping[int, Request],
        running: Mapping[int, Request],
        limits: ReplicaLimits,
        tokens_made: Callable[[int], int],
    ):
        self._queue = queue
        self._running = running
        self.tokens_made = tokens_made
        self.limits = limits
        self.step = 0
        self.time_s = 0.0
        self.waiting_count = 0
        self.running_count = 0
        self.kv_tokens = 0
        self.joined: Sequence[Request] = ()
        self.finished: Sequence[int] = ()

    @property
    def waiting(self) -> tuple[Request, ...]:
        """Waiting requests in queue order."""
        return tuple(self._queue.values())

    @property
    def running(self) -> list[Request]:
        """Running requests in admission order."""
        return list(self._running.values())


class Action(NamedTuple):
    """The decision for one step.

    admit: ids of waiting requests, in the order in which they join the running batch.
    preempt: ids of running requests that lose all progress and go to the front of the queue.
    hold: ids of running requests that make no token in this step but keep slot and KV.
    valid_steps: for how many steps, this one included, calling again would be pointless: as long as no
        request arrives or completes, the scheduler would admit and preempt nothing more and hold the same
        requests. The engine may then jump over the steps in between. 1 is always right.
    """

    admit: Sequence[int] = ()
    preempt: Sequence[int] = ()
    hold: Set[int] = frozenset()
    valid_steps: int = 1


WAIT = Action(valid_steps=UNTIL_EVENT)
"""Do nothing until something arrives or completes."""


class Scheduler:
    """Base class. A scheduler is one class in one file; its parameters are dataclass fields."""

    def reset(self) -> None:
        """Forget everything; called before each run."""

    def decide(self, view: ReplicaView) -> Action:
        """Return the decision for the step that `view` describes."""
        raise NotImplementedError

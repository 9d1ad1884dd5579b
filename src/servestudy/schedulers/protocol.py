"""What a scheduler sees and what it answers: the one protocol of both engine models.

A scheduler sees what a real one can see. The true output length is not among it.
"""

import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

UNTIL_EVENT = sys.maxsize
"""`valid_steps` of a decision that stands until the next event: a request arrives, completes, ends its prefill, is
preempted or rejected."""


class Request(NamedTuple):
    """A request as a scheduler knows it. Times are absolute simulation times in seconds."""

    request_id: int
    arrival_s: float
    prompt_tokens: int
    predicted_output_tokens: int
    deadline_s: float
    weight: float
    class_id: str
    ttft_deadline_s: float = math.inf
    tbt_target_s: float = math.inf


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """Capacity of one replica, in vLLM's words; the defaults are the published model's.

    `max_num_batched_tokens` bounds the tokens of an iteration (in the published model, the sequences of a step). KV is
    handed out in blocks of `block_tokens`; an admission must leave `watermark_tokens` free.
    """

    max_num_seqs: int = 64
    max_num_batched_tokens: int = 4096
    max_kv_tokens: int = 131_072
    block_tokens: int = 1
    watermark_tokens: int = 0

    def fits(self, running: int, kv_tokens: int, extra_kv_tokens: int) -> bool:
        """May one more request, which brings `extra_kv_tokens`, join `running` requests that hold `kv_tokens`?"""
        extra_kv_tokens += -extra_kv_tokens % self.block_tokens
        return (
            running + 1 <= self.max_num_seqs
            and kv_tokens + extra_kv_tokens <= self.max_kv_tokens - self.watermark_tokens
            and running + 1 <= self.max_num_batched_tokens
        )


class ReplicaView:
    """The state of one replica at the start of a step (an iteration). For reading only.

    Attributes
    ----------
    step, time_s: index and start time of the step.
    queue: waiting requests in queue order, as a live view: to look at the first few without a copy of a long queue.
    waiting_count, running_count: number of waiting and of running requests.
    decoding_count: running requests that have prefilled all their prompt (in the published model, all).
    prefill_backlog: tokens that the running requests have yet to prefill (in the published model, 0).
    kv_tokens: KV tokens of all running requests; in the serving model, of all the blocks that are taken.
    limits: the replica's capacity.
    joined: requests that entered the queue since the last decision, in queue order, preempted ones included.
    finished: ids of the requests that completed, or were rejected by the engine, since the last decision.
    tokens_made: function of a request's id: output tokens that it has made before this step.
    prefill_left: function of a request's id: tokens that it has yet to prefill; for a waiting one, those that it will
        have to prefill, and hold in KV, when admitted (for a swapped out one, those that it will hold).
    """

    __slots__ = (
        "_queue",
        "_running",
        "decoding_count",
        "finished",
        "joined",
        "kv_tokens",
        "limits",
        "prefill_backlog",
        "prefill_left",
        "queue",
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
        prefill_left: Callable[[int], int] | None = None,
    ):
        self._queue = queue
        self.queue: Collection[Request] = queue.values()
        self._running = running
        self.tokens_made = tokens_made
        self.prefill_left = prefill_left or self._all_of_a_waiting_prompt
        self.limits = limits
        self.step = 0
        self.time_s = 0.0
        self.waiting_count = 0
        self.running_count = 0
        self.decoding_count = 0
        self.prefill_backlog = 0
        self.kv_tokens = 0
        self.joined: Sequence[Request] = ()
        self.finished: Sequence[int] = ()

    def _all_of_a_waiting_prompt(self, request_id: int) -> int:
        """The published model prefills at once and for free, and again from the start after a preemption."""
        return self._queue[request_id].prompt_tokens if request_id in self._queue else 0

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
    preempt: ids of running requests that go to the front of the queue. They lose their KV; in the published model also
        the tokens that they have made.
    hold: ids of running requests that do nothing in this step but keep slot and KV.
    valid_steps: for how many steps, this one included, calling again would be pointless: until the next event
        (UNTIL_EVENT) the scheduler would admit, preempt and reject nothing more and hold the same requests. The engine
        may then jump over the steps in between. 1 is always right.
    reject: ids of waiting requests that are turned away for good.
    prefill: serving model only. Which running (or just admitted) requests prefill, in this order, and how many tokens
        each at most; None: all, in admission order.
    valid_until_s: the decision stands only for steps that begin before this time. Also when to ask again if it leaves
        the replica idle.
    regroup: serving model only. Running (or just admitted) requests, by id, that move to a cohort of that number, where
        they stay until moved again. All begin in cohort 0, after a preemption too.
    hold_cohorts: serving model only. Cohorts whose decodes do nothing in this step, as if listed in `hold`; their
        prefills go on. To hold a cohort costs the same whatever its size.
    """

    admit: Sequence[int] = ()
    preempt: Sequence[int] = ()
    hold: Set[int] = frozenset()
    valid_steps: int = 1
    reject: Sequence[int] = ()
    prefill: Mapping[int, int] | None = None
    valid_until_s: float = math.inf
    regroup: Mapping[int, int] = MappingProxyType({})
    hold_cohorts: Set[int] = frozenset()


WAIT = Action(valid_steps=UNTIL_EVENT)
"""Do nothing until the next event."""


class Scheduler:
    """Base class. A scheduler is one class in one file; its parameters are dataclass fields.

    prefill_first: serving model only. While anything is to prefill, decodes wait (vLLM V0); otherwise every decode is
        served first and prefills share the rest of the token budget (vLLM V1, Sarathi).
    chunked_prefill: serving model only. Whether a prompt may be cut at the token budget.
    """

    prefill_first: ClassVar[bool] = False
    chunked_prefill: ClassVar[bool] = True

    def reset(self) -> None:
        """Forget everything; called before each run."""

    def decide(self, view: ReplicaView) -> Action:
        """Return the decision for the step that `view` describes."""
        raise NotImplementedError

    def victim(self, running: Sequence[Request]) -> int:
        """Id of the request to preempt when a decode finds no free block (serving model only).

        `running` is in admission order and not empty. Default: the last admitted.
        """
        return running[-1].request_id

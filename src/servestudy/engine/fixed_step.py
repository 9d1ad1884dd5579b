"""The engine of the published portability study: one replica, steps of 1 ms, prefill free of charge.

Every running request that is not held makes one token a step, whatever the batch. KV is checked at admission
only and never evicts. Source: the published study's simulator with prefill modelling off, the only mode that its
campaign used; swapping, migration and disaggregation exist there but none of the executed schedulers uses them.

The engine jumps over steps in which nothing can change: no arrival, no completion, and the scheduler's last
decision still valid. All state is in whole steps and tokens, so a jump is exact, not an approximation;
`step_by_step=True` calls the scheduler in every step and must give the same outcome to the last bit.
"""

import heapq
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servestudy.schedulers.protocol import ReplicaLimits, ReplicaView, Request, Scheduler

STEP_S = 0.001
DRAIN_STEPS = 50_000
"""A run that never empties ends when this many steps have begun since the last arrival."""

PUBLISHED_LIMITS = ReplicaLimits()

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Telemetry:
    """Counters over executed steps; steps skipped while the replica was idle do not count."""

    queue_depth_mean: float
    queue_depth_max: int
    batch_saturation_mean: float
    batch_saturation_max: float
    kv_occupancy_mean: float
    kv_occupancy_max: float
    admission_control_activations: int
    preemption_or_reorder_events: int
    prefill_decode_contention_fraction: float
    token_budget_saturation_fraction: float
    n_steps: int


@dataclass(frozen=True)
class Outcome:
    """What happened to the requests of one run. Arrays have one entry a completed request, in completion order:
    by step, and within a step in admission order. A step's tokens are stamped at its end."""

    completed_ids: np.ndarray
    first_token_step: np.ndarray
    completion_step: np.ndarray
    last_step: int
    telemetry: Telemetry

    @property
    def first_token_s(self) -> np.ndarray:
        return (self.first_token_step + 1) * STEP_S

    @property
    def completion_s(self) -> np.ndarray:
        return (self.completion_step + 1) * STEP_S

    @property
    def sim_duration_s(self) -> float:
        """Start (not end) of the last executed step, as the study defines it."""
        return self.last_step * STEP_S


class _Running:
    """A running request. Between holds its token count follows from the step in which it last began to decode."""

    __slots__ = ("decoding_since", "first_token_step", "held", "made", "order", "output_tokens", "request")

    def __init__(self, request: Request, output_tokens: int, order: int):
        self.request = request
        self.output_tokens = output_tokens
        self.order = order
        self.made = 0
        self.held = True
        self.decoding_since = -1
        self.first_token_step = -1

    def tokens_made_before(self, step: int) -> int:
        return self.made if self.held else self.made + step - self.decoding_since

    def hold(self, step: int) -> None:
        self.made = self.tokens_made_before(step)
        self.held = True

    def decode(self, step: int) -> int:
        """Begin to make a token a step; return the step in which the last one is made."""
        self.held = False
        self.decoding_since = step
        if not self.made:
            self.first_token_step = step
        return step + self.output_tokens - self.made - 1


def first_step_at(time_s: np.ndarray) -> np.ndarray:
    """Index of the first step that starts at or after each time: the smallest k with time <= k * 0.001."""
    step = np.ceil(time_s / STEP_S).astype(np.int64)
    step -= (step - 1) * STEP_S >= time_s
    step += step * STEP_S < time_s
    return step


def run(
    requests: Sequence[Request],
    output_tokens: Sequence[int],
    scheduler: Scheduler,
    limits: ReplicaLimits = PUBLISHED_LIMITS,
    drain_steps: int = DRAIN_STEPS,
    step_by_step: bool = False,
) -> Outcome:
    """Simulate `requests` (in arrival order) with their true `output_tokens` (>= 1) under `scheduler`.

    Ends when all requests have completed, or `drain_steps` steps after the last arrival was enqueued. An exception
    of the scheduler passes through unchanged.
    """
    arrival_s = np.array([request.arrival_s for request in requests])
    enqueue_step = first_step_at(arrival_s).tolist()
    idle_jump_step = (arrival_s / STEP_S).astype(np.int64).tolist()
    outputs = dict(zip((request.request_id for request in requests), output_tokens, strict=True))
    total = len(requests)
    max_num_seqs = limits.max_num_seqs

    queue: dict[int, Request] = {}
    running: dict[int, _Running] = {}
    held_ids: set[int] = set()
    finishing: list[tuple[int, int, int]] = []  # heap of (last step, admission order, id); may hold stale entries
    completions: list[tuple[int, int, int]] = []  # (id, first token step, completion step)
    view = ReplicaView(queue, running, limits)
    scheduler.reset()

    step = arrived = admissions = kv_tokens = 0
    end_step = None
    queue_sum = queue_max = active_sum = active_max = kv_sum = kv_max = 0
    activations = preemptions = n_steps = 0
    rejoined: list[Request] = []

    def is_current(entry: tuple[int, int, int]) -> bool:
        last_step, order, request_id = entry
        state = running.get(request_id)
        return (
            state is not None
            and state.order == order
            and not state.held
            and state.decoding_since + state.output_tokens - state.made - 1 == last_step
        )

    while True:
        first_new = arrived
        while arrived < total and enqueue_step[arrived] <= step:
            request = requests[arrived]
            queue[request.request_id] = request
            arrived += 1
        if end_step is None and arrived == total:
            end_step = step + drain_steps - 1

        waiting_before = len(queue)
        slot_was_free = len(running) < max_num_seqs
        view.step = step
        view.time_s = step * STEP_S
        view.kv_tokens = kv_tokens
        view.joined = requests[first_new:arrived]
        if rejoined:
            view.joined = (*rejoined, *view.joined)
            rejoined = []
        action = scheduler.decide(view)
        if slot_was_free and waiting_before:
            activations += waiting_before - len(queue.keys() & set(action.admit))

        for request_id in action.preempt:
            state = running.pop(request_id, None)
            if state is None:
                log.warning("step %d: cannot preempt request %s, it is not running", step, request_id)
                continue
            kv_tokens -= state.request.prompt_tokens + state.tokens_made_before(step)
            held_ids.discard(request_id)
            rejoined.insert(0, state.request)
            preemptions += 1
        if rejoined:
            others = dict(queue)
            queue.clear()
            queue.update((request.request_id, request) for request in rejoined)
            queue.update(others)

        for request_id in action.admit:
            request = queue.get(request_id)
            if request is None or request in rejoined:
                log.warning("step %d: cannot admit request %s, it is not waiting", step, request_id)
            elif not limits.fits(len(running), kv_tokens, request.prompt_tokens):
                log.warning("step %d: cannot admit request %s, it does not fit", step, request_id)
            else:
                del queue[request_id]
                state = _Running(request, outputs[request_id], admissions)
                running[request_id] = state
                admissions += 1
                kv_tokens += request.prompt_tokens
                if request_id not in action.hold:
                    heapq.heappush(finishing, (state.decode(step), state.order, request_id))
                else:
                    held_ids.add(request_id)

        if held_ids or action.hold:
            hold = {request_id for request_id in action.hold if request_id in running}
            for request_id in hold - held_ids:
                running[request_id].hold(step)
            for request_id in held_ids - hold:
                state = running[request_id]
                heapq.heappush(finishing, (state.decode(step), state.order, request_id))
            held_ids = hold

        # The steps from here to `last` are alike: same queue, same batch, and no completion before the end of `last`.
        while finishing and not is_current(finishing[0]):
            heapq.heappop(finishing)
        last = step
        if not step_by_step and (queue or running):
            last = step + action.valid_steps - 1
            last = min(last, enqueue_step[arrived] - 1 if arrived < total else end_step)
            if finishing:
                last = min(last, finishing[0][0])

        steps = last - step + 1
        repeats = steps - 1
        waiting = len(queue)
        active = len(running)
        growth = active - len(held_ids)
        queue_sum += waiting_before + waiting * repeats
        queue_max = max(queue_max, waiting_before, waiting if repeats else 0)
        if active < max_num_seqs:
            activations += waiting * repeats
        active_sum += active * repeats
        kv_sum += kv_tokens * repeats + growth * (repeats * steps // 2)
        if repeats:
            active_max = max(active_max, active)
            kv_max = max(kv_max, kv_tokens + growth * repeats)

        kv_tokens += growth * steps
        while finishing and finishing[0][0] == last:
            entry = heapq.heappop(finishing)
            if is_current(entry):
                request_id = entry[2]
                state = running.pop(request_id)
                kv_tokens -= state.request.prompt_tokens + state.output_tokens
                completions.append((request_id, state.first_token_step, last))
        active = len(running)
        active_sum += active
        active_max = max(active_max, active)
        kv_sum += kv_tokens
        kv_max = max(kv_max, kv_tokens)
        n_steps += steps

        idle = not queue and not running
        if last == end_step or (idle and arrived == total):
            break
        step = last + 1
        if idle:
            step = max(step, idle_jump_step[arrived])

    telemetry = Telemetry(
        queue_depth_mean=queue_sum / n_steps,
        queue_depth_max=queue_max,
        batch_saturation_mean=active_sum / max_num_seqs / n_steps,
        batch_saturation_max=active_max / max_num_seqs,
        kv_occupancy_mean=kv_sum / limits.max_kv_tokens / n_steps,
        kv_occupancy_max=kv_max / limits.max_kv_tokens,
        admission_control_activations=activations,
        preemption_or_reorder_events=preemptions,
        prefill_decode_contention_fraction=0.0,
        token_budget_saturation_fraction=0.0,
        n_steps=n_steps,
    )
    ids, first, completion = np.array(completions, dtype=np.int64).reshape(-1, 3).T
    return Outcome(ids, first, completion, last, telemetry)

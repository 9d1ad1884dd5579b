"""The engine of the published portability study: one replica, steps of 1 ms, prefill free of charge.

Every running request that is not held makes one token a step, whatever the batch. KV is checked at admission
only and never evicts. Source: the published study's simulator with prefill modelling off, the only mode that its
campaign used; swapping, migration and disaggregation exist there but none of the executed schedulers uses them.

The engine jumps over steps in which nothing can change: no arrival, no completion, and the scheduler's last
decision still valid. All state is in whole steps and tokens, so a jump is exact, not an approximation;
`step_by_step=True` calls the scheduler in every step and must give the same outcome to the last bit.
"""

import logging
import sys
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from servestudy.engine.fixed_step_records import STEP_S, Outcome, Telemetry
from servestudy.errors import UserError
from servestudy.schedulers.protocol import ReplicaLimits, ReplicaView, Request, Scheduler

MODEL = "published"
DRAIN_STEPS = 50_000
"""A run that never empties ends when this many steps have begun since the last arrival."""

PUBLISHED_LIMITS = ReplicaLimits()
MAX_TIME_S = 1e9
"""Arrivals beyond this are refused: steps of 1 ms would no longer be told apart reliably."""

log = logging.getLogger(__name__)


def first_step_at(time_s: np.ndarray) -> np.ndarray:
    """Index of the first step that starts at or after each time: the smallest k with time <= k * 0.001.

    Raises UserError for times so late that steps of 1 ms are lost in a double's precision.
    """
    if len(time_s) and not np.max(time_s) < MAX_TIME_S:
        raise UserError(f"an arrival lies at {np.max(time_s)} s after scaling, must be below {MAX_TIME_S:g} s")
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
    exact_idle_jump: bool = False,
) -> Outcome:
    """Simulate `requests` (in arrival order) with their true `output_tokens` (>= 1) under `scheduler`.

    Ends when all requests have completed, or `drain_steps` steps after the last arrival was enqueued. An exception
    of the scheduler passes through unchanged. An idle replica wakes in the step of the next arrival if
    `exact_idle_jump`; published: up to one step before, as the arrival is rounded down.
    """
    arrival_s = np.array([request.arrival_s for request in requests])
    enqueue_step = first_step_at(arrival_s).tolist()
    idle_jump_step = enqueue_step if exact_idle_jump else (arrival_s / STEP_S).astype(np.int64).tolist()
    outputs = dict(zip((request.request_id for request in requests), output_tokens, strict=True))
    total = len(requests)
    max_num_seqs = limits.max_num_seqs

    queue: dict[int, Request] = {}
    running: dict[int, Request] = {}  # in admission order
    # Each running request is in one of three: decoding since its admission, decoding again after a hold, or held.
    # The step of its last token tells the progress of a decoding one, the number of tokens left that of a held one.
    due: dict[int, tuple[int, int, int]] = {}  # id -> (last token step, admission order, id)
    resumed: dict[int, int] = {}  # id -> last token step
    held: dict[int, int] = {}  # id -> tokens left
    finishing: list[tuple[int, int, int]] = []  # heap of the values of `due`, and of some that are no longer
    first_token_step: dict[int, int] = {}
    order: dict[int, int] = {}  # of admission
    completions: list[tuple[int, int, int]] = []  # (id, first token step, last token step)

    def tokens_left(request_id: int) -> int:
        """Tokens that a running request has yet to make at the start of this step."""
        if request_id in held:
            return held[request_id]
        last_token_step = due[request_id][0] if request_id in due else resumed[request_id]
        return last_token_step - step + 1

    view = ReplicaView(queue, running, limits, lambda request_id: outputs[request_id] - tokens_left(request_id))
    scheduler.reset()

    step = arrived = admissions = kv_tokens = 0
    end_step = sys.maxsize
    queue_sum = queue_max = active_sum = active_max = kv_sum = kv_max = 0
    activations = preemptions = n_steps = 0
    rejoined: list[Request] = []
    finished: list[int] = []
    rejected: list[int] = []

    while True:
        joined = rejoined
        while arrived < total and enqueue_step[arrived] <= step:
            request = requests[arrived]
            queue[request.request_id] = request
            joined.append(request)
            arrived += 1
            if arrived == total:
                end_step = step + drain_steps - 1

        view.waiting_count = waiting_before = len(queue)
        view.running_count = view.decoding_count = running_before = len(running)
        view.step = step
        view.time_s = step * STEP_S
        view.kv_tokens = kv_tokens
        view.joined = joined
        view.finished = finished
        action = scheduler.decide(view)
        if action.valid_steps < 1:
            raise ValueError(f"step {step}: valid_steps is {action.valid_steps}, must be at least 1")

        rejoined = []
        for request_id in action.preempt:
            if request_id not in running:
                log.warning("step %d: cannot preempt request %s, it is not running", step, request_id)
                continue
            kv_tokens -= running[request_id].prompt_tokens + outputs[request_id] - tokens_left(request_id)
            rejoined.insert(0, running.pop(request_id))
            for progress in (due, resumed, held):
                progress.pop(request_id, None)
            preemptions += 1

        refused: set[int] = set()
        left_waiting = waiting_before
        for request_id in action.admit:
            request = queue.get(request_id)
            if request is None:
                log.warning("step %d: cannot admit request %s, it is not waiting", step, request_id)
            elif not limits.fits(len(running), kv_tokens, request.prompt_tokens):
                log.warning("step %d: cannot admit request %s, it does not fit", step, request_id)
                refused.add(request_id)
            else:
                left_waiting -= 1
                running[request_id] = queue.pop(request_id)
                order[request_id] = admissions
                first_token_step[request_id] = step
                due[request_id] = entry = (step + outputs[request_id] - 1, admissions, request_id)
                heappush(finishing, entry)
                admissions += 1
                kv_tokens += request.prompt_tokens

        for request_id in action.reject:
            if queue.pop(request_id, None) is None:
                log.warning("step %d: cannot reject request %s, it is not waiting", step, request_id)
            else:
                left_waiting -= 1
                rejected.append(request_id)

        if running_before < max_num_seqs:
            activations += left_waiting - len(refused)  # those that this step's decision did not name

        if rejoined:
            behind = dict(queue)
            queue.clear()
            queue.update((request.request_id, request) for request in rejoined)
            queue.update(behind)

        if held or action.hold:
            starting = action.hold - held.keys()
            if len(held) + len(starting) > len(action.hold):
                for request_id in held.keys() - action.hold:
                    left = held.pop(request_id)
                    resumed[request_id] = step + left - 1
                    if left == outputs[request_id]:
                        first_token_step[request_id] = step
            for request_id in starting:
                if request_id in running:
                    end = due.pop(request_id)[0] if request_id in due else resumed.pop(request_id)
                    held[request_id] = end - step + 1

        # The steps from here to `last` are alike: same queue, same batch, no completion before the end of `last`.
        while finishing and due.get(finishing[0][2]) is not finishing[0]:
            heappop(finishing)
        last = step
        if not step_by_step and (queue or running):
            last = step + action.valid_steps - 1
            if finishing and finishing[0][0] < last:
                last = finishing[0][0]
            if resumed:
                last = min(last, min(resumed.values()))
            if arrived == total:
                last = min(last, end_step)
            elif enqueue_step[arrived] <= last:
                last = enqueue_step[arrived] - 1

        steps = last - step + 1
        active = len(running)
        growth = active - len(held)
        queue_sum += waiting_before
        if waiting_before > queue_max:
            queue_max = waiting_before
        if steps > 1:
            repeats = steps - 1
            waiting = len(queue)
            if waiting:
                queue_sum += waiting * repeats
                queue_max = max(queue_max, waiting)
                if active < max_num_seqs:
                    activations += waiting * repeats
            active_sum += active * repeats
            if active > active_max:
                active_max = active
            kv_sum += kv_tokens * repeats + growth * (repeats * steps // 2)
            kv_tokens += growth * repeats
            if kv_tokens > kv_max:
                kv_max = kv_tokens
        kv_tokens += growth
        finished = []
        while finishing and finishing[0][0] == last:
            entry = heappop(finishing)
            if due.get(entry[2]) is entry:
                del due[entry[2]]
                finished.append(entry[2])
        if resumed:
            finished += [request_id for request_id, end in resumed.items() if end == last]
            finished.sort(key=order.__getitem__)
        for request_id in finished:
            resumed.pop(request_id, None)
            kv_tokens -= running.pop(request_id).prompt_tokens + outputs[request_id]
            completions.append((request_id, first_token_step[request_id], last))
        active = len(running)
        active_sum += active
        if active > active_max:
            active_max = active
        kv_sum += kv_tokens
        if kv_tokens > kv_max:
            kv_max = kv_tokens
        n_steps += steps

        step = last + 1
        if not queue and not running:
            if arrived == total:
                break
            step = max(step, idle_jump_step[arrived])
        elif last == end_step:
            break

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
    return Outcome(ids, first, completion, last, telemetry, rejected_ids=tuple(rejected))

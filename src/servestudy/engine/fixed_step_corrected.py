"""The fixed-step engine with rules that the published one lacks: prefill that takes a budget, a KV capacity that is
enforced while decoding, steps that take longer with batch and KV.

The audit of the published study runs these one at a time. With the published rules it does what `fixed_step` does, to
the last bit. It jumps only while nothing prefills and all steps take the same time.

Source of the prefill rules: the published study's simulator, which has them but never used them in its campaign.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from servestudy.audit.rules import EngineRules
from servestudy.engine.fixed_step import PUBLISHED_LIMITS, first_step_at, run
from servestudy.engine.fixed_step_records import STEP_S, Outcome, StepCounters, TimedOutcome
from servestudy.schedulers.protocol import Action, ReplicaLimits, ReplicaView, Request, Scheduler

NOBODY: Set[int] = frozenset()


def run_with_rules(
    requests: Sequence[Request],
    output_tokens: Sequence[int],
    scheduler: Scheduler,
    rules: EngineRules,
    limits: ReplicaLimits = PUBLISHED_LIMITS,
    step_by_step: bool = False,
) -> Outcome:
    """Simulate under `rules` on the engine that knows them; otherwise as `fixed_step.run`."""
    if rules.keeps_the_published_engine or (rules.kv_full_alone and kv_never_full(requests, output_tokens, limits)):
        return run(requests, output_tokens, scheduler, limits, rules.drain_steps, step_by_step, rules.exact_idle_jump)
    return CorrectedReplica(requests, output_tokens, limits, rules).run(scheduler, step_by_step)


def kv_never_full(requests: Sequence[Request], output_tokens: Sequence[int], limits: ReplicaLimits) -> bool:
    """Do even the largest requests that can run together stay within the KV capacity?"""
    sizes = sorted(request.prompt_tokens + made for request, made in zip(requests, output_tokens, strict=True))
    return sum(sizes[-limits.max_num_seqs :]) <= limits.max_kv_tokens


class CorrectedReplica:
    """One run: where each request stands. A running one prefills (`work_left`) or decodes (`due`)."""

    def __init__(
        self, requests: Sequence[Request], output_tokens: Sequence[int], limits: ReplicaLimits, rules: EngineRules
    ):
        self.requests, self.limits, self.rules = requests, limits, rules
        self.by_id = {request.request_id: request for request in requests}
        self.outputs = dict(zip((request.request_id for request in requests), output_tokens, strict=True))
        self.queue: dict[int, Request] = {}
        self.running: dict[int, Request] = {}  # in admission order
        self.swapped: dict[int, int] = {}  # id -> tokens made
        self.work_left: dict[int, int] = {}  # budget that the prefill of a request still takes
        self.due: dict[int, int] = {}  # step of the last token, if it decodes in every step from now on
        self.first_token: dict[int, int] = {}  # step of the first token, likewise
        self.completions: list[tuple[int, int, int]] = []  # (id, first token step, last token step)
        self.rejected: list[int] = []
        self.step = 0
        self.kv_tokens = 0
        self.preemptions = 0

    def made(self, request_id: int) -> int:
        """Output tokens of a running request at the start of this step."""
        if request_id not in self.due:
            return 0
        return self.outputs[request_id] - (self.due[request_id] - self.step + 1)

    def prompt_left(self, request_id: int) -> int:
        """Prompt tokens that a request has yet to prefill."""
        if request_id in self.queue:
            return self.by_id[request_id].prompt_tokens
        return int(-(-self.work_left.get(request_id, 0) // self.rules.prefill_cost))

    def kv_of(self, request_id: int) -> int:
        """KV tokens of a running request: what is prefilled of its prompt, and its output."""
        return self.by_id[request_id].prompt_tokens - self.prompt_left(request_id) + self.made(request_id)

    def start_decoding(self, request_id: int, step: int, made: int = 0) -> None:
        self.due[request_id] = step + self.outputs[request_id] - made - 1
        if not made:
            self.first_token[request_id] = step

    def admit(self, action: Action) -> tuple[int, int]:
        """Admit what fits, in order; return how many, and how many waiting ones were refused."""
        admitted, refused = 0, set()
        for request_id in action.admit:
            request = self.queue.get(request_id)
            if request is None:
                continue
            if not self.limits.fits(len(self.running), self.kv_tokens, request.prompt_tokens):
                refused.add(request_id)
                continue
            self.running[request_id] = self.queue.pop(request_id)
            if self.rules.prefill == "free":
                self.start_decoding(request_id, self.step)
                self.kv_tokens += request.prompt_tokens
            else:
                self.work_left[request_id] = int(np.ceil(request.prompt_tokens * self.rules.prefill_cost))
            admitted += 1
        return admitted, len(refused)

    def leave(self, request_id: int) -> Request:
        """Take a request off the running batch, with its KV."""
        self.kv_tokens -= self.kv_of(request_id)
        self.work_left.pop(request_id, None)
        self.due.pop(request_id, None)
        return self.running.pop(request_id)

    def restart(self, request_ids: Iterable[int]) -> list[Request]:
        """Put running and swapped requests at the front of the queue, the last named first; they lose all progress."""
        rejoined: list[Request] = []
        for request_id in request_ids:
            if request_id in self.running or request_id in self.swapped:
                if self.swapped.pop(request_id, None) is None:
                    self.leave(request_id)
                rejoined.insert(0, self.by_id[request_id])
                self.preemptions += 1
        if rejoined:
            behind = dict(self.queue)
            self.queue.clear()
            self.queue.update((request.request_id, request) for request in rejoined)
            self.queue.update(behind)
        return rejoined

    def return_swapped(self) -> None:
        """Swapped requests come back in order while there is room for them and for a token of everyone."""
        for request_id, made in list(self.swapped.items()):
            kv_tokens = self.by_id[request_id].prompt_tokens + made
            room = self.limits.max_kv_tokens - self.kv_tokens - len(self.running) - 1
            if len(self.running) >= self.limits.max_num_seqs or (kv_tokens > room and self.running):
                return
            del self.swapped[request_id]
            self.running[request_id] = self.by_id[request_id]
            self.start_decoding(request_id, self.step, made)
            self.kv_tokens += kv_tokens

    def make_room(self, resting: Set[int], chunks: Mapping[int, int]) -> tuple[list[Request], bool]:
        """Until this step's tokens fit, the last admitted go. Return who is back in the queue, and if any went.

        A request that is still in prefill starts again, whatever the rule: it has made nothing that could be swapped.
        """
        growth = {i: self.growth_of(i, work) for i, work in chunks.items()}
        growth |= {i: 1 for i in self.due if i not in resting}
        kv_tokens = self.kv_tokens + sum(growth.values())
        gone: list[int] = []
        for victim in reversed(self.running):
            if kv_tokens <= self.limits.max_kv_tokens or len(gone) == len(self.running) - 1:
                break
            kv_tokens -= self.kv_of(victim) + growth.get(victim, 0)
            gone.append(victim)
        if self.rules.kv_full == "swap":
            for request_id in [i for i in gone if i in self.due]:
                self.swapped[request_id] = self.made(request_id)
                self.leave(request_id)
                self.preemptions += 1
        return self.restart(i for i in gone if i in self.running), bool(gone)

    def growth_of(self, request_id: int, work: int) -> int:
        """Prompt tokens that a chunk completes."""
        cost, left = self.rules.prefill_cost, self.work_left[request_id]
        return int(-(-left // cost) + (work - left) // cost)

    def plan(self, action: Action) -> tuple[Set[int], dict[int, int], bool]:
        """Which decodes rest in this step, what each prefill gets, and whether the budget was all used."""
        resting = action.hold & self.due.keys() if action.hold else NOBODY
        if not self.work_left:
            return resting, {}, False
        rules, chunks = self.rules, {}
        most, granted = rules.prefill_chunk, action.prefill
        if rules.prefill == "decode_protected":
            budget = rules.step_budget - len(self.due) + len(resting)
            in_order: Iterable[int] = self.work_left
        else:
            budget = rules.step_budget
            in_order = sorted(self.running, key=lambda i: (self.by_id[i].arrival_s, i))
        served = 0
        for request_id in in_order:
            if budget <= 0:
                break
            if request_id in self.work_left:
                if granted is not None:
                    most = granted.get(request_id, 0)
                work = int(min(most, self.work_left[request_id], budget))
                if work:
                    chunks[request_id] = work
                    budget -= work
            elif request_id not in resting:
                budget -= 1
            served += 1
        if rules.prefill == "shared_contention" and served < len(self.running):
            resting = resting | (set(in_order[served:]) & self.due.keys())
        return resting, chunks, budget <= 0

    def advance(self, resting: Set[int], chunks: Mapping[int, int], steps: int) -> list[int]:
        """`steps` equal steps: tokens and prefill; return who completed, in admission order."""
        last = self.step + steps - 1
        self.kv_tokens += (len(self.due) - len(resting)) * steps
        for request_id in resting:
            self.due[request_id] += steps
            if self.first_token[request_id] >= self.step:
                self.first_token[request_id] += steps
        ended = min(self.due.values(), default=last + 1) <= last
        finished = [i for i, end in self.due.items() if end == last] if ended else []
        for request_id, work in chunks.items():
            self.kv_tokens += self.growth_of(request_id, work)
            self.work_left[request_id] -= work
            if not self.work_left[request_id]:
                del self.work_left[request_id]
                self.start_decoding(request_id, last + 1)
        if len(finished) > 1:
            done = set(finished)
            finished = [request_id for request_id in self.running if request_id in done]
        for request_id in finished:
            del self.due[request_id]
            self.kv_tokens -= self.running.pop(request_id).prompt_tokens + self.outputs[request_id]
            self.completions.append((request_id, self.first_token[request_id], last))
        return finished

    def run(self, scheduler: Scheduler, step_by_step: bool) -> Outcome:
        """Run to the end and return what happened."""
        rules, limits, queue, running = self.rules, self.limits, self.queue, self.running
        arrivals = np.array([request.arrival_s for request in self.requests])
        enqueue_step = first_step_at(arrivals).tolist()
        wake_step = enqueue_step if rules.exact_idle_jump else (arrivals / STEP_S).astype(np.int64).tolist()
        arrival_s = arrivals.tolist()
        total, slots, timed = len(arrival_s), limits.max_num_seqs, rules.varies_step_time
        limits_kv = rules.kv_full != "ignored"
        view = ReplicaView(queue, running, limits, self.made, self.prompt_left)
        scheduler.reset()
        count = StepCounters()
        starts_s, ends_s = [0.0], []  # of the steps, where they vary
        arrived, end_step = 0, sys.maxsize
        rejoined: list[Request] = []
        finished: list[int] = []
        while True:
            step = self.step
            joined = rejoined
            now = starts_s[-1] if timed else step * STEP_S
            while arrived < total and arrival_s[arrived] <= now:
                request = self.requests[arrived]
                queue[request.request_id] = request
                joined.append(request)
                arrived += 1
                if arrived == total:
                    end_step = step + rules.drain_steps - 1
            if self.swapped:
                self.return_swapped()

            view.waiting_count = waiting_before = len(queue)
            view.running_count = running_before = len(running)
            view.decoding_count = len(self.due)
            view.prefill_backlog = sum(self.work_left.values())
            view.step, view.time_s, view.kv_tokens = step, now, self.kv_tokens
            view.joined, view.finished = joined, finished
            action = scheduler.decide(view)
            rejoined = self.restart(action.preempt)
            admitted, refused = self.admit(action)
            dropped = [request_id for request_id in action.reject if queue.pop(request_id, None)]
            self.rejected += dropped
            if running_before < slots:
                count.activations += waiting_before - admitted - len(dropped) - refused

            resting, chunks, budget_used = self.plan(action)
            evicted = False
            if limits_kv and self.kv_tokens + len(self.due) + sum(chunks.values()) > limits.max_kv_tokens:
                back, evicted = self.make_room(resting, chunks)
                rejoined = back + rejoined
                resting, chunks, budget_used = self.plan(action)

            steps = 1
            decoding = len(self.due) - len(resting)
            is_steady = not (step_by_step or self.work_left or self.swapped or evicted or timed)
            if is_steady and (queue or running):
                until = end_step + 1 if arrived == total else enqueue_step[arrived]
                steps = min(action.valid_steps, until - step)
                if decoding:
                    moving = self.due.values() if not resting else [e for i, e in self.due.items() if i not in resting]
                    steps = min(steps, min(moving) - step + 1)
                    if limits_kv and len(running) > 1:
                        steps = min(steps, (limits.max_kv_tokens - self.kv_tokens) // decoding)
            count.contended += steps if decoding and chunks else 0
            count.saturated += steps if budget_used else 0
            count.all_but_last(steps, waiting_before, len(queue), len(running), self.kv_tokens, decoding, slots)
            if timed:
                slower = rules.batch_slowdown * len(running) / slots
                slower += rules.kv_slowdown * self.kv_tokens / limits.max_kv_tokens
                ends_s.append(now + STEP_S * (1 + slower))
            finished = self.advance(resting, chunks, steps)
            count.last(len(running), self.kv_tokens)

            last = step + steps - 1
            self.step = last + 1
            is_idle = not (queue or running or self.swapped)
            if (is_idle and arrived == total) or (not is_idle and last == end_step):
                break
            if timed:
                starts_s.append(max(ends_s[-1], arrival_s[arrived]) if is_idle else ends_s[-1])
            elif is_idle:
                self.step = max(self.step, wake_step[arrived])

        telemetry = count.telemetry(limits, self.preemptions)
        events = np.array(self.completions, dtype=np.int64).reshape(-1, 3).T
        rejected = tuple(self.rejected)
        if timed:
            times = np.array(starts_s), np.array(ends_s)
            return TimedOutcome(*events, last, telemetry, *times, rejected_ids=rejected)
        return Outcome(*events, last, telemetry, rejected_ids=rejected)

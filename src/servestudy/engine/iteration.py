"""The serving engine: one replica, iteration by iteration, by the rules of docs/SERVING_MODEL.md.

A replica is a plain object: whoever drives it, `run` here or a SimPy process of a cluster, calls `advance` at the times
that it asks for. It jumps over iterations in which only the same requests decode. Their times follow from one closed
form whose origin is the last change of the batch, whether one jumps or steps, so both give the same bits.
"""

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter

from servestudy.engine.alike import AlikeIterations
from servestudy.engine.batch import Batch
from servestudy.engine.decisions import apply, chunks, preempt_for_blocks
from servestudy.engine.outcome import Counters, Outcome, Progress, completed_columns
from servestudy.engine.replica_config import ReplicaConfig, replica_limits
from servestudy.schedulers.protocol import WAIT, ReplicaView, Request, Scheduler

__all__ = ["MODEL", "Outcome", "Replica", "ReplicaConfig", "replica_limits", "run"]

MODEL = "serving"
DEFAULT_CONFIG = ReplicaConfig()

log = logging.getLogger(__name__)


@cache  # once a process: a study runs thousands of such replicas
def warn_of_extrapolation(tokens: int) -> None:
    log.warning("batches of more than %d tokens: iteration times extrapolated", tokens)


class Replica:
    """One replica under one scheduler. Times are seconds, iteration indices count those that ran.

    Attributes
    ----------
    batch: its requests. view: what the scheduler sees of them.
    time_s: when the iterations in flight end; with none, when it last did anything.
    """

    __slots__ = (
        "_alike",
        "_arrivals",
        "_decodes",
        "_emptied",
        "_emptied_step",
        "_injected",
        "_iteration_s",
        "_max_batched_tokens",
        "_max_num_seqs",
        "_most_tokens",
        "_next_arrival_s",
        "_prefill",
        "_prefilled",
        "_queued_before",
        "_step_by_step",
        "_steps",
        "_valid_step",
        "_valid_until_s",
        "batch",
        "config",
        "counters",
        "end_s",
        "scheduler",
        "time_s",
        "view",
    )

    def __init__(self, scheduler: Scheduler, config: ReplicaConfig, step_by_step: bool = False):
        limits = config.limits
        self.scheduler = scheduler
        self.config = config
        self.batch = batch = Batch(config)
        self.view = ReplicaView(batch.queue, batch.running, limits, batch.tokens_made, batch.prefill_left)
        self.counters = Counters()
        self.time_s = self.end_s = 0.0
        self._step_by_step = step_by_step
        self._iteration_s = config.time_model.iteration_s
        self._max_num_seqs = limits.max_num_seqs
        self._max_batched_tokens = limits.max_num_batched_tokens
        self._most_tokens = limits.max_kv_tokens - limits.watermark_tokens
        self._arrivals: deque[Progress] = deque()
        self._next_arrival_s = math.inf
        self._injected = 0
        # The decision that stands.
        self._prefill: Mapping[int, int] | None = None
        self._valid_step = 0
        self._valid_until_s = math.inf
        # The iterations in flight, the last of which ends at `time_s`.
        self._steps = 0
        self._decodes = 0
        self._prefilled: list[Progress] = []
        self._queued_before = 0
        self._alike = AlikeIterations()
        # How often the batch was emptied before this iteration.
        self._emptied = 0
        self._emptied_step = -1
        scheduler.reset()

    def enqueue(self, request: Request, output_tokens: int) -> None:
        """Add a request that joins the queue with the first iteration that begins at its arrival or later.

        Requests come in order of arrival. Raises ValueError for less than one prompt or output token.
        """
        request_id, arrival_s, prompt_tokens = request[:3]
        if output_tokens < 1 or prompt_tokens < 1:
            raise ValueError(f"{request}: {output_tokens} output tokens; a request has at least one token of each kind")
        if not self._arrivals:
            self._next_arrival_s = arrival_s
        self._arrivals.append(Progress(request, request_id, arrival_s, output_tokens, prompt_tokens, prompt_tokens))

    def advance(self, now_s: float) -> float:
        """End what ends by `now_s`, decide, begin the next iterations. Returns when to call again; inf: when one comes.

        Calling earlier, because a request came, is right too: an iteration in flight ends as planned, but iterations
        that a jump has planned to begin at `now_s` or later are decided anew.
        """
        if self._steps:
            if now_s < self.time_s:
                self._cut_jump(now_s)
                if now_s < self.time_s:
                    return self.time_s
            self._end_iterations()
        elif self.time_s < now_s:
            self.time_s = now_s
            self.batch.decodes.changed = True  # a pause
        time_s, batch = self.time_s, self.batch
        if self._next_arrival_s <= time_s:
            self._receive(time_s)
        self._queued_before = len(batch.queue)
        if not self._queued_before and not batch.running:
            return self._next_arrival_s
        if batch.event or batch.step >= self._valid_step or time_s >= self._valid_until_s or self._step_by_step:
            self._decide(time_s)
        decodes = batch.decodes.count
        parts: Sequence[tuple[Progress, int]] = ()
        if batch.prefilling:
            scheduler = self.scheduler
            if decodes and scheduler.prefill_first and not batch.prefilling.keys() <= batch.held:
                decodes = 0
            budget = self._max_batched_tokens - decodes
            parts = chunks(batch, budget, self._prefill, scheduler.chunked_prefill, alone=not decodes)
        free_blocks = batch.cache.free_blocks
        if decodes > free_blocks and batch.decodes.blocks_of_tick() > free_blocks:
            preempt_for_blocks(batch, self.scheduler)
            parts = [part for part in parts if part[0].request_id in batch.running]
            decodes = batch.decodes.count
            if not parts and not decodes:
                return self._ask_again(time_s)
        if parts or (decodes and batch.swapped_tokens):
            self._begin_one(parts, decodes)
        elif decodes:
            self._begin_jump(decodes)
        else:
            if self._prefill is None and batch.prefilling.keys() - batch.held:
                raise RuntimeError(f"iteration {batch.step}: idle although requests can run: {batch.running}")
            return self._idle_until(time_s)
        return self.time_s

    def stop(self, limit_s: float) -> None:
        """End the iteration in flight and begin none at `limit_s` or later."""
        if self._steps:
            self._cut_jump(limit_s)
            self._end_iterations()

    def outcome(self) -> Outcome:
        """Of a replica that has stopped. Raises RuntimeError if requests or blocks were lost."""
        batch, limits = self.batch, self.config.limits
        batch.check(self._injected)
        return Outcome(
            **completed_columns(batch.completed),
            rejected_ids=tuple(batch.rejected_ids),
            waiting_ids=tuple(batch.queue),
            running_ids=tuple(batch.running),
            last_step=batch.step - 1,
            sim_duration_s=self.end_s,
            telemetry=self.counters.telemetry(batch.step, batch.preemptions, limits.max_num_seqs, limits.max_kv_tokens),
        )

    def _receive(self, time_s: float) -> None:
        """Requests that have arrived join the queue."""
        arrivals, batch = self._arrivals, self.batch
        while arrivals and arrivals[0].arrival_s <= time_s:
            p = arrivals.popleft()
            self._injected += 1
            if p.prefill_left + p.output_tokens > self._most_tokens:
                batch.refuse(p)
            else:
                batch.join(p)
        self._next_arrival_s = arrivals[0].arrival_s if arrivals else math.inf

    def _decide(self, time_s: float) -> None:
        """Ask the scheduler and do what it says."""
        view, batch = self.view, self.batch
        view.step = batch.step
        view.time_s = time_s
        view.waiting_count = len(batch.queue)
        view.running_count = running = len(batch.running)
        view.decoding_count = running - len(batch.prefilling)
        view.prefill_backlog = batch.backlog
        view.kv_tokens = batch.cache.taken_tokens()
        view.joined = batch.joined
        view.finished = batch.finished
        action = self.scheduler.decide(view)
        batch.joined = []
        batch.finished = []
        batch.event = False
        if action.valid_steps < 1:
            raise ValueError(f"iteration {batch.step}: valid_steps is {action.valid_steps}, must be at least 1")
        self._valid_step = batch.step + action.valid_steps
        self._valid_until_s = action.valid_until_s
        self._prefill = action.prefill
        if action is not WAIT or batch.held or batch.decodes.held:
            apply(action, batch, time_s)
        if batch.starting:
            batch.start_decodes()

    def _begin_one(self, parts: Sequence[tuple[Progress, int]], decodes: int) -> None:
        """Begin an iteration that is not like the next one: with prefill or swaps."""
        batch, config = self.batch, self.config
        prefill = squares = kv_tokens = 0
        for p, tokens in parts:
            squares += tokens * (2 * (p.kv_tokens - p.prefill_left) + tokens)
            prefill += tokens
            p.prefill_left -= tokens
            if not p.prefill_left:
                del batch.prefilling[p.request_id]
                self._prefilled.append(p)
        batch.backlog -= prefill
        batched = prefill + decodes
        if decodes:
            kv_tokens = batch.decodes.kv_tokens()
        self.time_s += self._iteration_s(batched, decodes, kv_tokens, squares)
        if batch.swapped_tokens:
            self.time_s += batch.swapped_tokens * config.time_model.kv_token_bytes / config.swap_bytes_per_s
            batch.swapped_tokens = 0
        batch.decodes.changed = True
        self._steps = 1
        self._decodes = decodes
        if decodes and prefill:
            self.counters.mixed += 1
        if batched >= self._max_batched_tokens:
            self.counters.full += 1
            if batched > config.time_model.max_profiled_tokens:
                warn_of_extrapolation(config.time_model.max_profiled_tokens)

    def _begin_jump(self, decodes: int) -> None:
        """Begin iterations of decodes alone, as many as are alike: until one ends, lacks a block, or a time comes."""
        batch = self.batch
        if batch.decodes.changed:
            batch.decodes.changed = False
            first_s = self._iteration_s(decodes, decodes, batch.decodes.kv_tokens())
            self._alike.begin(self.time_s, first_s, self.config.time_model.kv_token_s * decodes)
        steps = 1
        if not batch.event and not self._step_by_step:
            steps = batch.decodes.iterations_to_completion()
            if steps > self._valid_step - batch.step:
                steps = self._valid_step - batch.step
            if (steps // batch.cache.block_tokens + 1) * decodes > batch.cache.free_blocks:  # they might not suffice
                steps = batch.cache.ticks_that_fit(batch.decodes.served, steps)
        self._steps = steps
        self._decodes = decodes
        self.time_s = self._alike.add(steps)
        if steps > 1:
            limit_s = self._valid_until_s
            if self._next_arrival_s < limit_s:
                limit_s = self._next_arrival_s
            if limit_s < self.time_s:
                self._cut_jump(limit_s)
        if decodes >= self._max_batched_tokens:
            self.counters.full += self._steps

    def _cut_jump(self, limit_s: float) -> None:
        """Of the iterations in flight or planned, keep the first and those that begin before `limit_s`."""
        if self._steps > 1:
            self._steps = self._alike.cut(self._steps, limit_s)
            self.time_s = self._alike.add(0)

    def _end_iterations(self) -> None:
        """Count what the iterations in flight have done; requests that are done leave."""
        batch, counters, steps, time_s = self.batch, self.counters, self._steps, self.time_s
        last = batch.step + steps - 1
        batch.step += steps
        if time_s <= self.end_s:
            raise RuntimeError(f"iteration {last} would end at {time_s} s, the one before at {self.end_s} s")
        self.end_s = time_s
        self._steps = 0
        running, queued, queued_before = len(batch.running), len(batch.queue), self._queued_before
        counters.queue_sum += queued_before + (steps - 1) * queued
        if queued_before > counters.queue_max:
            counters.queue_max = queued_before
        counters.running_sum += running * steps
        if running > counters.running_max:
            counters.running_max = running
        if queued and running < self._max_num_seqs:
            counters.left_waiting += queued * steps
        done: list[Progress] = []
        if self._decodes:
            batch.cache.grow(steps * self._decodes, batch.decodes.tick(steps, done))
        kv_tokens = batch.cache.tokens
        counters.kv_token_sum += kv_tokens * steps - self._decodes * (steps * (steps - 1) // 2)
        if kv_tokens > counters.kv_token_max:
            counters.kv_token_max = kv_tokens
        if self._prefilled:
            for p in self._prefilled:
                p.made += 1
                if p.first_token_step < 0:
                    p.first_token_step = last
                    p.first_token_s = time_s
                if p.made < p.output_tokens:
                    batch.starting.append(p)
                else:
                    done.append(p)
            self._prefilled = []
            batch.event = True
        if len(done) > 1:
            done.sort(key=attrgetter("order"))
        for p in done:
            batch.complete(p, last, time_s)

    def _ask_again(self, time_s: float) -> float:
        """Preemption for blocks has emptied the batch: decide again at once, unless that goes round in circles."""
        batch = self.batch
        self._emptied = self._emptied + 1 if self._emptied_step == batch.step else 1
        self._emptied_step = batch.step
        if self._emptied <= len(batch.queue) + len(batch.running):
            return time_s
        return self._idle_until(time_s)

    def _idle_until(self, time_s: float) -> float:
        """The batch is empty by the scheduler's will: when the next arrival comes or it wants to be asked."""
        return min(self._next_arrival_s, self._valid_until_s if self._valid_until_s > time_s else math.inf)


def run(
    requests: Sequence[Request],
    output_tokens: Sequence[int],
    scheduler: Scheduler,
    config: ReplicaConfig = DEFAULT_CONFIG,
    step_by_step: bool = False,
) -> Outcome:
    """Simulate `requests` (in arrival order, ids unique) with their true `output_tokens` (>= 1) under `scheduler`.

    Ends when all requests have completed, when nothing can happen any more, or when an iteration would begin later than
    `config.drain_s` after the last arrival. `step_by_step` calls the scheduler in every iteration and gives the same
    outcome. An exception of the scheduler passes through; RuntimeError if the engine breaks one of its own rules.
    """
    replica = Replica(scheduler, config, step_by_step)
    for request, tokens in zip(requests, output_tokens, strict=True):
        replica.enqueue(request, tokens)
    last_s = requests[-1].arrival_s + config.drain_s if requests else 0.0
    time_s = replica.advance(0.0)
    while time_s <= last_s:
        time_s = replica.advance(time_s)
    replica.stop(math.nextafter(last_s, math.inf))
    return replica.outcome()

"""The serving engine: one replica, iteration by iteration, by the rules of docs/SERVING_MODEL.md.

A replica is a plain object: whoever drives it, `run` here or a SimPy process of a cluster, calls `advance` at the times
that it asks for. It jumps over iterations in which only the same requests decode. Their times follow from one closed
form whose origin is the last change of the batch, whether one jumps or steps, so both give the same bits.
"""

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop
from operator import attrgetter

from servestudy.engine.batch import Batch
from servestudy.engine.outcome import Counters, Outcome, Progress, completed_columns
from servestudy.engine.replica_config import ReplicaConfig, replica_limits
from servestudy.schedulers.protocol import ReplicaView, Request, Scheduler

__all__ = ["MODEL", "Outcome", "Replica", "ReplicaConfig", "replica_limits", "run"]

MODEL = "serving"
DEFAULT_CONFIG = ReplicaConfig()

log = logging.getLogger(__name__)


class Replica:
    """One replica under one scheduler. Times are seconds, iteration indices count those that ran.

    Attributes
    ----------
    batch: its requests. view: what the scheduler sees of them.
    time_s: when the iterations in flight end; with none, when it last did anything.
    """

    __slots__ = (
        "_arrivals",
        "_decodes",
        "_emptied",
        "_emptied_step",
        "_injected",
        "_k",
        "_linear_s",
        "_max_batched_tokens",
        "_most_tokens",
        "_next_arrival_s",
        "_origin_s",
        "_prefill",
        "_prefilled",
        "_queued_before",
        "_square_s",
        "_step_by_step",
        "_steps",
        "_valid_step",
        "_valid_until_s",
        "batch",
        "config",
        "counters",
        "end_s",
        "extrapolates",
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
        self.extrapolates = False
        self._step_by_step = step_by_step
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
        # Iteration k since the batch last changed or paused begins at origin + k * (linear + square * k).
        self._origin_s = self._linear_s = self._square_s = 0.0
        self._k = 0
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
            self.batch.changed = True  # a pause
        time_s, batch = self.time_s, self.batch
        if self._next_arrival_s <= time_s:
            self._receive(time_s)
        self._queued_before = len(batch.queue)
        if not self._queued_before and not batch.running:
            return self._next_arrival_s
        if batch.event or batch.step >= self._valid_step or time_s >= self._valid_until_s or self._step_by_step:
            self._decide(time_s)
        cache = batch.cache
        decodes = cache.growing + len(batch.guests)
        chunks: Sequence[tuple[Progress, int]] = ()
        if batch.prefilling:
            if decodes and self.scheduler.prefill_first and not batch.prefilling.keys() <= batch.held:
                decodes = 0
            chunks = self._chunks(decodes)
        if decodes > cache.free_blocks and batch.blocks_of_decodes() > cache.free_blocks:
            self._preempt_for_blocks()
            chunks = [chunk for chunk in chunks if chunk[0].request_id in batch.running]
            decodes = cache.growing + len(batch.guests)
            if not chunks and not decodes:
                return self._ask_again(time_s)
        if chunks or (decodes and (batch.guests or batch.swapped_tokens)):
            self._begin_one(chunks, decodes)
        elif decodes:
            self._begin_jump(decodes)
        else:
            if self._prefill is None and (cache.growing or batch.prefilling.keys() - batch.held):
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
        admit, preempt, hold, valid_steps, reject, self._prefill, self._valid_until_s = action
        if valid_steps < 1:
            raise ValueError(f"iteration {batch.step}: valid_steps is {valid_steps}, must be at least 1")
        self._valid_step = batch.step + valid_steps
        for request_id in reject:
            batch.reject(request_id)
        for request_id in preempt:
            batch.preempt(request_id)
        for request_id in admit:
            if request_id in preempt:
                batch.warn("admit", request_id, "it was preempted in this iteration")
            else:
                batch.admit(request_id, time_s)
        if hold or batch.held or batch.guests:
            batch.hold(hold, valid_steps == 1)
        if self._prefill:
            for request_id in self._prefill.keys() - batch.prefilling.keys():
                batch.warn("prefill", request_id, "it has nothing to prefill")

    def _preempt_for_blocks(self) -> None:
        """Preempt victims until every decode left can have its next block."""
        batch = self.batch
        while batch.blocks_of_decodes() > batch.cache.free_blocks:
            running = list(batch.running.values())
            request_id = self.scheduler.victim(running)
            if request_id not in batch.running:
                batch.warn("preempt", request_id, "it is not running; the last admitted goes")
                request_id = running[-1].request_id
            batch.preempt(request_id)

    def _chunks(self, decodes: int) -> list[tuple[Progress, int]]:
        """Who prefills how many tokens in this iteration, which `decodes` share."""
        batch, most, chunked = self.batch, self._prefill, self.scheduler.chunked_prefill
        budget = self._max_batched_tokens - decodes
        chunks: list[tuple[Progress, int]] = []
        for request_id in batch.prefilling if most is None else most:
            p = batch.prefilling.get(request_id)
            if p is None or request_id in batch.held:
                continue
            tokens = p.prefill_left
            if most is not None and most[request_id] < tokens:
                if most[request_id] < 1:
                    continue
                tokens = most[request_id] if chunked else tokens
            if tokens > budget:
                if chunked:
                    tokens = budget
                elif chunks or decodes:
                    break
            if tokens < 1:
                break
            chunks.append((p, tokens))
            budget -= tokens
        return chunks

    def _begin_one(self, chunks: Sequence[tuple[Progress, int]], decodes: int) -> None:
        """Begin an iteration that is not like the next one: with prefill, guests or swaps."""
        batch, config = self.batch, self.config
        prefill = squares = 0
        for p, tokens in chunks:
            squares += tokens * (2 * (p.kv_tokens - p.prefill_left) + tokens)
            prefill += tokens
            p.prefill_left -= tokens
            if not p.prefill_left:
                del batch.prefilling[p.request_id]
                self._prefilled.append(p)
        batch.backlog -= prefill
        batched = prefill + decodes
        kv_tokens = batch.cache.growing_tokens
        if batch.guests:
            kv_tokens += sum(p.kv_tokens for p in batch.guests)
        self.time_s += config.time_model.iteration_s(batched, decodes, kv_tokens, squares)
        if batch.swapped_tokens:
            self.time_s += batch.swapped_tokens * config.time_model.kv_token_bytes / config.swap_bytes_per_s
            batch.swapped_tokens = 0
        batch.changed = True
        self._steps = 1
        self._decodes = decodes
        if decodes and prefill:
            self.counters.mixed += 1
        if batched >= self._max_batched_tokens:
            self.counters.full += 1
            if batched > config.time_model.max_profiled_tokens and not self.extrapolates:
                self.extrapolates = True
                log.warning("a batch of %d tokens: above the profile, iteration times are extrapolated", batched)

    def _begin_jump(self, decodes: int) -> None:
        """Begin iterations of decodes alone, as many as are alike: until one ends, lacks a block, or a time comes."""
        batch = self.batch
        cache = batch.cache
        if batch.changed:
            batch.changed = False
            model = self.config.time_model
            self._k = 0
            self._origin_s = self.time_s
            self._square_s = model.kv_token_s * decodes / 2
            self._linear_s = model.iteration_s(decodes, decodes, cache.growing_tokens) - self._square_s
        steps = 1
        if not batch.event and not self._step_by_step:
            finishing = batch.finishing
            while finishing[0][2].due is not finishing[0]:
                heappop(finishing)
            steps = finishing[0][0] - cache.ticks
            if steps > self._valid_step - batch.step:
                steps = self._valid_step - batch.step
            if steps * decodes > cache.free_blocks:
                steps = cache.ticks_that_fit(steps)
        self._steps = steps
        self._decodes = decodes
        self._k = k = self._k + steps
        self.time_s = self._origin_s + k * (self._linear_s + self._square_s * k)
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
        if self._steps == 1:
            return
        origin_s, linear_s, square_s = self._origin_s, self._linear_s, self._square_s
        first = k = self._k - self._steps + 1
        gap_s = limit_s - origin_s
        if gap_s > 0:  # the root of the closed form, right but for rounding
            k = max(first, int(2 * gap_s / (linear_s + math.sqrt(linear_s**2 + 4 * square_s * gap_s))))
        while k > first and origin_s + (k - 1) * (linear_s + square_s * (k - 1)) >= limit_s:
            k -= 1
        while k < self._k and origin_s + k * (linear_s + square_s * k) < limit_s:
            k += 1
        self._steps = k - first + 1
        self._k = k
        self.time_s = origin_s + k * (linear_s + square_s * k)

    def _end_iterations(self) -> None:
        """Count what the iterations in flight have done; requests that are done leave."""
        batch, counters, steps, time_s = self.batch, self.counters, self._steps, self.time_s
        cache = batch.cache
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
        if queued and running < self.config.limits.max_num_seqs:
            counters.left_waiting += queued * steps
        done: list[Progress] = []
        if self._decodes:
            cache.tick(steps)
            ticks, finishing = cache.ticks, batch.finishing
            while finishing and finishing[0][0] <= ticks:
                entry = heappop(finishing)
                if entry[2].due is entry:
                    done.append(entry[2])
            if batch.guests:
                done += batch.serve_guests()
        kv_tokens = cache.fixed_tokens + cache.growing_tokens
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
                    batch.start_decoding(p)
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

"""A slow, literal simulator of the serving model (docs/SERVING_MODEL.md): every iteration is played, nothing is
skipped.

It shares the protocol with the package (the schedulers need it) and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from servestudy.schedulers.protocol import ReplicaView


@dataclass(eq=False)
class Job:
    request: object
    output: int
    made: int = 0
    cached: int = 0  # tokens whose KV exists, on the device or swapped out
    left: int = 0  # tokens yet to prefill
    blocks: int = 0
    cohort: int = 0


@dataclass
class Result:
    admission: dict = field(default_factory=dict)  # id -> (iteration, seconds at its begin), of the first admission
    first_token: dict = field(default_factory=dict)  # id -> (iteration, seconds at its end)
    completion: dict = field(default_factory=dict)  # id -> (iteration, seconds at its end), in completion order
    rejected: list = field(default_factory=list)
    waiting: list = field(default_factory=list)  # ids left in the queue at the end
    running: list = field(default_factory=list)
    preemptions: int = 0
    holds: int = 0  # (request, iteration) pairs
    iterations: int = 0
    end_s: float = 0.0
    ignored: list = field(default_factory=list)  # parts of actions that the rules do not allow
    batches: list = field(default_factory=list)  # per iteration: (ids that decode, {id: tokens that it prefills})


class Simulation:
    def __init__(self, requests, outputs, scheduler, limits, iteration_s, swap_s_per_token, drain_s):
        self.arrivals = [Job(r, o, left=r.prompt_tokens) for r, o in zip(requests, outputs, strict=True)]
        self.last_arrival_s = requests[-1].arrival_s if requests else 0.0
        self.scheduler, self.limits, self.iteration_s = scheduler, limits, iteration_s
        self.swap_s_per_token, self.drain_s = swap_s_per_token, drain_s  # None: preemption by recomputation
        self.total_blocks = limits.max_kv_tokens // limits.block_tokens
        self.watermark_blocks = -(-limits.watermark_tokens // limits.block_tokens)
        self.free = self.total_blocks
        self.queue, self.running = [], []
        self.joined, self.finished = [], []
        self.now, self.iteration, self.swap_s = 0.0, 0, 0.0
        self.result = Result()

    def job(self, request_id):
        return next(j for j in self.queue + self.running if j.request.request_id == request_id)

    def prefill_left(self, request_id):
        job = self.job(request_id)
        return job.left if job in self.running else job.left + job.cached

    def view(self):
        view = ReplicaView(
            {j.request.request_id: j.request for j in self.queue},
            {j.request.request_id: j.request for j in self.running},
            self.limits,
            lambda request_id: self.job(request_id).made,
            self.prefill_left,
        )
        view.step, view.time_s = self.iteration, self.now
        view.waiting_count, view.running_count = len(self.queue), len(self.running)
        view.decoding_count = sum(j.left == 0 for j in self.running)
        view.prefill_backlog = sum(j.left for j in self.running)
        view.kv_tokens = (self.total_blocks - self.free) * self.limits.block_tokens
        view.joined = tuple(j.request for j in self.queue if j.request.request_id in self.joined)
        view.finished = tuple(self.finished)
        self.joined, self.finished = [], []
        return view

    def enqueue_arrived(self):
        while self.arrivals and self.arrivals[0].request.arrival_s <= self.now:
            job = self.arrivals.pop(0)
            request = job.request
            if request.prompt_tokens + job.output > self.limits.max_kv_tokens - self.limits.watermark_tokens:
                self.result.rejected.append(request.request_id)
                self.finished.append(request.request_id)
            else:
                self.queue.append(job)
                self.joined.append(request.request_id)

    def preempt(self, job):
        self.running.remove(job)
        self.free += job.blocks
        job.blocks = job.cohort = 0
        if self.swap_s_per_token is None:
            job.cached, job.left = 0, job.request.prompt_tokens + job.made
        else:
            self.swap_s += job.cached * self.swap_s_per_token
        self.queue.insert(0, job)
        self.joined.append(job.request.request_id)
        self.result.preemptions += 1

    def find(self, jobs, request_id, what):
        for job in jobs:
            if job.request.request_id == request_id:
                return job
        self.result.ignored.append((self.iteration, what, request_id))
        return None

    def apply(self, action):
        preempted = []
        for request_id in action.reject:
            if job := self.find(self.queue, request_id, "reject"):
                self.queue.remove(job)
                self.result.rejected.append(request_id)
        for request_id in action.preempt:
            if job := self.find(self.running, request_id, "preempt"):
                self.preempt(job)
                preempted.append(job)
        for request_id in action.admit:
            job = self.find(self.queue, request_id, "admit")
            if job is None:
                continue
            blocks = -(-(job.left + job.cached) // self.limits.block_tokens)
            if (
                job in preempted
                or len(self.running) >= self.limits.max_num_seqs
                or self.free - blocks < self.watermark_blocks
            ):
                self.result.ignored.append((self.iteration, "admit", request_id))
                continue
            self.queue.remove(job)
            self.running.append(job)
            self.free -= blocks
            job.blocks = blocks
            self.swap_s += job.cached * (self.swap_s_per_token or 0.0)
            self.result.admission.setdefault(request_id, (self.iteration, self.now))
        for request_id, cohort in action.regroup.items():
            if job := self.find(self.running, request_id, "regroup"):
                job.cohort = cohort

    def compose(self, action):
        """The batch: jobs that decode, and job -> tokens that it prefills."""
        scheduler, budget = self.scheduler, self.limits.max_num_batched_tokens
        held = [j for j in self.running if j.request.request_id in action.hold]
        held += [j for j in self.running if j.left == 0 and j.cohort in action.hold_cohorts and j not in held]
        active = [j for j in self.running if j not in held]
        self.result.holds += len(self.running) - len(active)
        decodes = [j for j in active if j.left == 0]
        to_prefill = [j for j in active if j.left > 0]
        if scheduler.prefill_first and to_prefill:
            decodes = []
        budget -= len(decodes)
        most = {j: j.left for j in to_prefill}
        if action.prefill is not None:
            by_id = {j.request.request_id: j for j in to_prefill}
            most = {by_id[i]: min(tokens, by_id[i].left) for i, tokens in action.prefill.items() if i in by_id}
        prefills = {}
        for job, tokens in most.items():
            if scheduler.chunked_prefill:
                tokens = min(tokens, budget)
                if tokens <= 0:
                    continue
            elif tokens > budget and (decodes or prefills):
                break
            prefills[job] = tokens
            budget -= tokens
        return decodes, prefills

    def take_blocks(self, decodes, prefills):
        """Each decode that needs a block takes one; victims leave the batch. Returns whether there were any."""
        before = self.result.preemptions
        for job in list(self.running):
            if job not in decodes or job.blocks * self.limits.block_tokens > job.cached:
                continue
            while self.free == 0 and job in decodes:
                victim = self.job(self.scheduler.victim([j.request for j in self.running]))
                self.preempt(victim)
                prefills.pop(victim, None)
                if victim in decodes:
                    decodes.remove(victim)
            if job in decodes:
                self.free -= 1
                job.blocks += 1
        return self.result.preemptions > before

    def execute(self, decodes, prefills):
        batched = len(decodes) + sum(prefills.values())
        squares = sum((j.cached + tokens) ** 2 - j.cached**2 for j, tokens in prefills.items())
        self.now += self.iteration_s(batched, len(decodes), sum(j.cached for j in decodes), squares) + self.swap_s
        self.swap_s = 0.0
        stamp = (self.iteration, self.now)
        self.result.batches.append(
            ([j.request.request_id for j in decodes], {j.request.request_id: n for j, n in prefills.items()})
        )
        for job, tokens in prefills.items():
            job.left -= tokens
            job.cached += tokens
        for job in decodes:
            job.cached += 1
        makers = decodes + [j for j in prefills if j.left == 0]
        for job in list(self.running):
            if job not in makers:
                continue
            job.made += 1
            request_id = job.request.request_id
            self.result.first_token.setdefault(request_id, stamp)
            if job.made == job.output:
                self.result.completion[request_id] = stamp
                self.finished.append(request_id)
                self.running.remove(job)
                self.free += job.blocks
        self.iteration += 1
        self.result.end_s = self.now

    def run(self):
        self.scheduler.reset()
        while True:
            self.enqueue_arrived()
            if not self.queue and not self.running:
                if not self.arrivals:
                    break
                self.now = self.arrivals[0].request.arrival_s
                continue
            if self.now > self.last_arrival_s + self.drain_s:
                break
            action = self.scheduler.decide(self.view())
            self.apply(action)
            decodes, prefills = self.compose(action)
            had_victims = self.take_blocks(decodes, prefills)
            if decodes or prefills:
                self.execute(decodes, prefills)
            elif had_victims:
                pass  # an event like any other: the scheduler decides again at once
            else:
                next_arrival_s = self.arrivals[0].request.arrival_s if self.arrivals else float("inf")
                until_s = min(t for t in (next_arrival_s, action.valid_until_s) if t > self.now)
                if until_s == float("inf"):
                    break
                self.now = until_s
        result = self.result
        result.waiting = [j.request.request_id for j in self.queue]
        result.running = [j.request.request_id for j in self.running]
        result.iterations = self.iteration
        return result


def simulate(requests, outputs, scheduler, limits, iteration_s, swap_s_per_token=None, drain_s=3600.0) -> Result:
    """Play requests (by arrival) and their true output tokens. With `swap_s_per_token`, preemption is by swap."""
    return Simulation(requests, outputs, scheduler, limits, iteration_s, swap_s_per_token, drain_s).run()

"""A literal, slow engine of the published portability study: one loop turn per step, nothing skipped.

It is the reference of differential tests, so it stays close to the wording of the published rules and shares
no code with the package. Source of the rules: the published study, src/robustbench (simulator, telemetry).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """One GPU's limits and the clock. The defaults are the published campaign's."""

    max_active_sequences: int = 64
    max_batch_tokens: int = 4096
    max_kv_tokens: int = 131_072
    step_s: float = 0.001
    drain_steps: int = 50_000


@dataclass(frozen=True)
class Request:
    """A request; `arrival` and `deadline` in seconds, the others in tokens."""

    id: int
    arrival: float
    prompt: int
    predicted: int
    output: int
    deadline: float
    weight: float = 1.0
    class_id: str = "stage0_uniform"


@dataclass(frozen=True)
class Visible:
    """What a scheduler sees of a request: all but the true output."""

    id: int
    arrival: float
    prompt: int
    predicted: int
    deadline: float
    weight: float
    class_id: str


@dataclass
class View:
    """The state at the start of a step, a fresh copy each time: schedulers change it while they pick."""

    now: float
    step: int
    waiting: list[Visible]
    active: list[int]
    records: dict[int, Visible]
    decoded: dict[int, int]
    kv_tokens: int
    limits: Limits

    def feasible(self, r: Visible) -> bool:
        n = len(self.active)
        return (
            n + 1 <= self.limits.max_active_sequences
            and self.kv_tokens + r.prompt <= self.limits.max_kv_tokens
            and n + 1 <= self.limits.max_batch_tokens
        )

    def pick(self, r: Visible, admit: list[int]) -> None:
        """Add r to the admit list and charge its prompt, and nothing else, to this copy."""
        admit.append(r.id)
        self.active.append(r.id)
        self.kv_tokens += r.prompt


@dataclass
class Action:
    """A scheduler's decision: ids, in order."""

    admit: list[int] = field(default_factory=list)
    preempt: list[int] = field(default_factory=list)
    hold_decode: list[int] = field(default_factory=list)


@dataclass
class Active:
    """A request that holds a slot."""

    request: Request
    decoded: int = 0
    first_token_step: int | None = None

    @property
    def kv_tokens(self) -> int:
        return self.request.prompt + self.decoded


@dataclass
class Result:
    """What a run leaves. A token made in step k carries the stamp (k + 1) * step_s.

    first_token_step has the completed requests and those that are still active with a token; a preempted
    request lost its first token and gets a new one when it runs again.
    """

    limits: Limits
    completion_step: dict[int, int]
    first_token_step: dict[int, int]
    completion_order: list[int]
    n_steps: int
    last_step: int
    refused: int
    telemetry: dict[str, float]

    @property
    def sim_duration(self) -> float:
        return self.last_step * self.limits.step_s


def simulate(requests: list[Request], scheduler, limits: Limits) -> Result:
    """Run `scheduler` (it has decide(View) -> Action) over the requests until all is done or drained."""
    trace = sorted(requests, key=lambda r: r.arrival)
    visible = {r.id: Visible(r.id, r.arrival, r.prompt, r.predicted, r.deadline, r.weight, r.class_id) for r in trace}
    not_yet = list(trace)
    queue: list[Request] = []
    active: list[Active] = []

    completion_step: dict[int, int] = {}
    first_token_step: dict[int, int] = {}
    completion_order: list[int] = []
    refused = 0

    n_steps = 0
    queue_sum, queue_max = 0.0, 0
    batch_sum, batch_max = 0.0, 0.0
    kv_sum, kv_max = 0.0, 0.0
    activations = 0
    evictions = 0

    steps_since_all_in = 0
    k = 0
    while True:
        now = k * limits.step_s

        # Enqueue, in trace order.
        while not_yet and not_yet[0].arrival <= now:
            queue.append(not_yet.pop(0))

        queue_sum += len(queue)
        queue_max = max(queue_max, len(queue))

        view = View(
            now=now,
            step=k,
            waiting=[visible[r.id] for r in queue],
            active=[a.request.id for a in active],
            records={a.request.id: visible[a.request.id] for a in active},
            decoded={a.request.id: a.decoded for a in active},
            kv_tokens=sum(a.kv_tokens for a in active),
            limits=limits,
        )
        action = scheduler.decide(view)

        # Admission counter: from the action, and from the occupancy before the action.
        if len(active) < limits.max_active_sequences:
            admit_ids = set(action.admit)
            activations += sum(1 for r in queue if r.id not in admit_ids)

        # Preempts: progress is lost; each id goes to the front of the queue, so the last listed ends first.
        evicted: set[int] = set()
        for victim in action.preempt:
            for a in active:
                if a.request.id == victim:
                    active.remove(a)
                    queue.insert(0, a.request)
                    evicted.add(victim)
                    evictions += 1
                    break

        # Admissions, on the current state.
        seen: set[int] = set()
        for wanted in action.admit:
            if wanted in seen or wanted in evicted:
                continue
            seen.add(wanted)
            request = next((r for r in queue if r.id == wanted), None)
            if request is None:
                continue
            fits = (
                len(active) + 1 <= limits.max_active_sequences
                and sum(a.kv_tokens for a in active) + request.prompt <= limits.max_kv_tokens
                and len(active) + 1 <= limits.max_batch_tokens
            )
            if not fits:
                refused += 1
                continue
            queue.remove(request)
            active.append(Active(request))

        # Advance: one token for each active request that is not held, also for those admitted just now.
        held = set(action.hold_decode)
        still_active = []
        for a in active:
            if a.request.id not in held:
                a.decoded += 1
                if a.decoded == 1:
                    a.first_token_step = k
                if a.decoded >= a.request.output:
                    completion_step[a.request.id] = k
                    first_token_step[a.request.id] = a.first_token_step
                    completion_order.append(a.request.id)
                    continue
            still_active.append(a)
        active = still_active

        batch = len(active) / limits.max_active_sequences
        batch_sum += batch
        batch_max = max(batch_max, batch)
        kv = sum(a.kv_tokens for a in active) / limits.max_kv_tokens
        kv_sum += kv
        kv_max = max(kv_max, kv)
        n_steps += 1

        # Terminate?
        all_in = not not_yet
        empty = not queue and not active
        steps_since_all_in = steps_since_all_in + 1 if all_in else 0
        if (all_in and empty) or (all_in and steps_since_all_in >= limits.drain_steps):
            break

        # Idle jump: the only steps that the published engine skips; they count nowhere.
        if not_yet and empty:
            s = int(not_yet[0].arrival / limits.step_s)
            if s - (k + 1) > 0:
                k = s - 1
        k += 1

    for a in active:
        if a.first_token_step is not None:
            first_token_step[a.request.id] = a.first_token_step

    telemetry = {
        "queue_depth_mean": queue_sum / n_steps,
        "queue_depth_max": queue_max,
        "batch_saturation_mean": batch_sum / n_steps,
        "batch_saturation_max": batch_max,
        "kv_occupancy_mean": kv_sum / n_steps,
        "kv_occupancy_max": kv_max,
        "admission_control_activations": activations,
        "preemption_or_reorder_events": evictions,
        "prefill_decode_contention_fraction": 0.0,
        "token_budget_saturation_fraction": 0.0,
        "n_steps": n_steps,
    }
    return Result(limits, completion_step, first_token_step, completion_order, n_steps, k, refused, telemetry)

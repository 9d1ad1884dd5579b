"""What the two schedulers decide, as pure functions of numbers: the same for every engine and for the simulator.

FCFS is what vLLM V1 and Sarathi-Serve do: decodes, then started prefills, then the queue. SLAI (Bari, Hegde and de
Veciana, arXiv 2508.01002; the rule is that of their fork of Sarathi-Serve) lets a decode wait until its next token is
nearly due and gives the budget to prefills meanwhile, the shortest prompt first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WAITING, PREFILLING, DECODING = "waiting", "prefilling", "decoding"


class Candidate(NamedTuple):
    """A request as a scheduler may see it, in seconds and tokens; never its true output length.

    `prompt_tokens` are those that it has to hold before it can decode: after an eviction, with the tokens made so far.
    `last_token_s` is the end of the last step that made a token of it; only decoding ones have a meaningful one.
    """

    request_id: int
    arrival_s: float
    prompt_tokens: int
    state: str
    last_token_s: float = 0.0
    tbt_s: float = 0.0


@dataclass(frozen=True)
class Slai:
    """Parameters of SLAI; the defaults are the authors'.

    offset_steps, crowded_offset_steps: mean steps before its due time at which a decode gets critical, and the same
        while at least `crowded_kv_share` of KV is taken.
    tier_first: admit by time between tokens before prompt length. by_id: ties by request number, not by arrival.
    step_clock_s: seconds that a step counts in due times; None: as many as it takes.
    prefill_last: decodes that may wait are served before prefills, if the budget has room for them.
    """

    offset_steps: float = 5
    crowded_offset_steps: float = 10
    crowded_kv_share: float = 0.96
    tier_first: bool = False
    by_id: bool = False
    step_clock_s: float | None = None
    prefill_last: bool = False


AS_PUBLISHED = Slai(tier_first=True, by_id=True, step_clock_s=0.001, prefill_last=True)
"""The published study's plug-in: a step counts 1 ms, admission by class first, decodes served before prefills.

Its limit of 128 decodes is left out: no more requests are ever admitted here."""


class Order(NamedTuple):
    """Whom a step serves first. `rest` are decodes that may wait, served with what budget is left."""

    critical: Sequence[Candidate] = ()
    started: Sequence[Candidate] = ()
    new: Sequence[Candidate] = ()
    rest: Sequence[Candidate] = ()
    prefill_last: bool = False

    def listed(self) -> list[Candidate]:
        """All of them, in order."""
        if self.prefill_last:
            return [*self.critical, *self.rest, *self.started, *self.new]
        return [*self.critical, *self.started, *self.new, *self.rest]


def _arrival(candidate: Candidate) -> tuple[float, int]:
    return candidate.arrival_s, candidate.request_id


def fcfs(candidates: Iterable[Candidate], now_s: float = 0.0, mean_step_s: float = 0.0, kv_used: float = 0.0) -> Order:
    """First come, first served: no decode waits."""
    groups = _by_state(candidates)
    return Order(*(sorted(groups[state], key=_arrival) for state in (DECODING, PREFILLING, WAITING)))


def slai(
    candidates: Iterable[Candidate], now_s: float, mean_step_s: float, kv_used: float, params: Slai = Slai()
) -> Order:
    """SLAI at time `now_s`, on an engine whose steps took `mean_step_s` on average and use the share `kv_used` of KV.

    A decode is critical from its last token + TBT - offset mean steps on. With TBT below the offset all always are:
    SLAI is then first come first served with the shortest prompt admitted first.
    """
    groups = _by_state(candidates)
    offset = params.crowded_offset_steps if kv_used >= params.crowded_kv_share else params.offset_steps
    lead_s = offset * mean_step_s

    def by_due(candidate: Candidate) -> tuple:
        due_s = candidate.last_token_s + candidate.tbt_s
        return (due_s, candidate.request_id) if params.by_id else (due_s, *_arrival(candidate))

    def by_size(candidate: Candidate) -> tuple:
        size = (candidate.prompt_tokens, *_arrival(candidate))
        return (candidate.tbt_s, *size) if params.tier_first else size

    decodes = sorted(groups[DECODING], key=by_due)
    critical = [c for c in decodes if now_s >= c.last_token_s + c.tbt_s - lead_s]
    rest = [c for c in decodes if now_s < c.last_token_s + c.tbt_s - lead_s]
    started = sorted(groups[PREFILLING], key=_arrival)
    return Order(critical, started, sorted(groups[WAITING], key=by_size), rest, params.prefill_last)


def _by_state(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    groups: dict[str, list[Candidate]] = {WAITING: [], PREFILLING: [], DECODING: []}
    for candidate in candidates:
        groups[candidate.state].append(candidate)
    return groups


def admissible(order: Order, slots: int, free_blocks: int, block_tokens: int) -> Order:
    """The order with those of `new` that may enter, first to last, closing at the first that may not.

    One enters if a slot is free and its whole prompt plus one token fits into the free blocks, as with vLLM's
    `scheduler_reserve_full_isl`. It keeps a long prompt from starving, and transformers' engine from dying when it
    finds a full cache.
    """
    admitted = []
    for candidate in order.new[: max(0, slots)]:
        free_blocks -= blocks_of(candidate.prompt_tokens + 1, block_tokens)
        if free_blocks < 0:
            break
        admitted.append(candidate)
    return order._replace(new=admitted)


def blocks_of(tokens: int, block_tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // block_tokens)


def compose(order: Order, budget: int, prefill_left: Callable[[int], int]) -> dict[int, int]:
    """Tokens of each request in a step of at most `budget` tokens, in serving order; who gets none is not in it."""
    tokens = {}
    for candidate in order.listed():
        if budget <= 0:
            break
        wanted = 1 if candidate.state == DECODING else prefill_left(candidate.request_id)
        tokens[candidate.request_id] = min(wanted, budget)
        budget -= tokens[candidate.request_id]
    return tokens


class StepMean:
    """Running mean of step times. Under a step clock it is that constant."""

    def __init__(self, step_clock_s: float | None = None):
        self._sum_s, self._steps, self._clock_s = 0.0, 0, step_clock_s

    def add(self, step_s: float) -> None:
        self._sum_s += step_s
        self._steps += 1

    @property
    def mean_s(self) -> float:
        if self._clock_s is not None:
            return self._clock_s
        return self._sum_s / self._steps if self._steps else 0.0

    def now_s(self, clock_s: float) -> float:
        """The time that due times are compared with: that of the clock, or what the steps count."""
        return clock_s if self._clock_s is None else self._steps * self._clock_s


@dataclass(frozen=True)
class Arm:
    """One of the schedulers that are compared: `decide` is `fcfs`, or `slai` with parameters if `slai` is given.

    client_threads: at most so many requests are in flight, the others wait in the client; None: an open loop.
    tbt_s: the same time between tokens for every request, instead of the calibrated one.
    """

    name: str
    slai: Slai | None = None
    client_threads: int | None = None
    tbt_s: float | None = None

    def decide(self, candidates: Iterable[Candidate], now_s: float, mean_step_s: float, kv_used: float) -> Order:
        """The order of a step."""
        if self.slai is None:
            return fcfs(candidates)
        return slai(candidates, now_s, mean_step_s, kv_used, self.slai)

    def step_mean(self) -> StepMean:
        """The clock of a run."""
        return StepMean(self.slai.step_clock_s if self.slai else None)


PUBLISHED_CLIENT = {"client_threads": 32, "tbt_s": 0.5}
ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("fcfs"),
        Arm("slai", Slai()),
        Arm("fcfs_as_published", **PUBLISHED_CLIENT),
        Arm("slai_as_published", AS_PUBLISHED, **PUBLISHED_CLIENT),
    )
}
"""The arms by name. Those `as_published` have the published client: 32 threads, one class of 0.5 s."""

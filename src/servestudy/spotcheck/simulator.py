"""The serving engine of the simulator under the arms of the spot-check: the same requests, the same policy functions.

Iteration times come from a line through measured steps instead of a profile. A replay in it gives the same record as
one on a real engine.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from servestudy.engine.iteration import Replica, ReplicaConfig
from servestudy.engine.outcome import Outcome
from servestudy.errors import UserError
from servestudy.schedulers.protocol import Action, ReplicaLimits, ReplicaView, Request, Scheduler
from servestudy.spotcheck.policy import DECODING, PREFILLING, WAITING, Arm, Candidate, admissible, compose
from servestudy.spotcheck.presets import BLOCK_TOKENS


@dataclass(frozen=True)
class StepTime:
    """Seconds of an iteration: a base, and so much a token, a decode and a KV token that decodes read.

    Stands in for a TimeModel.
    """

    base_s: float
    token_s: float
    decode_s: float = 0.0
    kv_token_s: float = 0.0

    kv_token_bytes = 0
    max_profiled_tokens = math.inf

    def iteration_s(self, batched_tokens: int, decode_seqs: int, decode_kv_tokens: int, squares: int = 0) -> float:
        """The part that TimeModel has for prefill attention is in the price of a token here."""
        linear_s = self.base_s + self.token_s * batched_tokens
        return linear_s + self.decode_s * decode_seqs + self.kv_token_s * decode_kv_tokens

    @classmethod
    def fitted(cls, tokens: np.ndarray, requests: np.ndarray, kv_tokens: np.ndarray, seconds: np.ndarray) -> "StepTime":
        """A robust fit to measured steps, so that a few slow ones hardly count; no term is below 0.

        Arrays with one entry a step; the requests of a step stand for its decodes, as nearly all of them are. Raises
        UserError for fewer than ten steps.
        """
        from scipy.optimize import least_squares

        if len(seconds) < 10:
            raise UserError(f"{len(seconds)} measured steps are too few for step times; measure at least ten")
        columns = np.stack([np.ones(len(seconds)), tokens, requests, kv_tokens], axis=1)
        scale = np.median(seconds) / np.maximum(columns.mean(axis=0), 1.0)
        found = least_squares(
            lambda x: columns @ (x * scale) - seconds,
            x0=np.full(4, 0.25),
            bounds=(0, np.inf),
            loss="soft_l1",
            f_scale=0.1 * float(np.median(seconds)),
        )
        return cls(*(found.x * scale).tolist())


class ArmOnReplica(Scheduler):
    """An arm as a scheduler of the simulator. `replica` is set by `simulate`: its clock tells how long steps took."""

    replica: Replica

    def __init__(self, arm: Arm, tbt_s: Mapping[int, float]):
        self._arm, self._tbt_s = arm, tbt_s

    def reset(self) -> None:
        self._mean = self._arm.step_mean()
        self._last_token_s: dict[int, float] = {}
        self._tokens: dict[int, int] = {}  # of the last iteration, by request
        self._begun: tuple[int, float] | None = None  # its index and time
        self.holds = 0

    def decide(self, view: ReplicaView) -> Action:
        self._end_step(view)
        running = view.running
        states = {r.request_id: PREFILLING if view.prefill_left(r.request_id) else DECODING for r in running}
        candidates = [self._candidate(r, states[r.request_id], view) for r in running]
        candidates += [self._candidate(r, WAITING, view) for r in view.queue]
        limits = view.limits
        order = self._arm.decide(
            candidates, self._mean.now_s(view.time_s), self._mean.mean_s, view.kv_tokens / limits.max_kv_tokens
        )
        free_blocks = (limits.max_kv_tokens - view.kv_tokens) // limits.block_tokens
        order = admissible(order, limits.max_num_seqs - len(running), free_blocks, limits.block_tokens)
        self._tokens = compose(order, limits.max_num_batched_tokens, view.prefill_left)
        self._begun = view.step, view.time_s
        hold = frozenset(i for i, state in states.items() if state == DECODING and i not in self._tokens)
        self.holds += len(hold)
        prefill = {
            candidate.request_id: self._tokens[candidate.request_id]
            for candidate in (*order.started, *order.new)
            if candidate.request_id in self._tokens
        }
        admit = [c.request_id for c in order.new if c.request_id in self._tokens]
        return Action(admit=admit, hold=hold, prefill=prefill)

    def _candidate(self, request: Request, state: str, view: ReplicaView) -> Candidate:
        request_id = request.request_id
        prompt = view.prefill_left(request_id) if state == WAITING else request.prompt_tokens
        last_s = self._last_token_s.get(request_id, 0.0)
        return Candidate(request_id, request.arrival_s, prompt, state, last_s, self._tbt_s[request_id])

    def _end_step(self, view: ReplicaView) -> None:
        """Book the iteration that the last decision composed, if it ran."""
        if self._begun is None or view.step == self._begun[0]:
            return
        end_s = self.replica.end_s
        self._mean.add(end_s - self._begun[1])
        for request_id in self._tokens:
            self._last_token_s[request_id] = self._mean.now_s(end_s)


def simulate(
    requests: Sequence[tuple[float, int, int, float]],
    arm: Arm,
    step_time: StepTime,
    kv_tokens: int,
    budget: int,
    max_num_seqs: int,
) -> tuple[Outcome, int]:
    """Run requests (arrival_s, prompt tokens, output tokens, TBT in s; by arrival) to their end.

    Returns the outcome and how often a decode was held. The simulator has no client, so an arm's threads do not count.
    """
    limits = ReplicaLimits(max_num_seqs, budget, kv_tokens, BLOCK_TOKENS, 0)
    scheduler = ArmOnReplica(arm, {number: row[3] for number, row in enumerate(requests)})
    replica = Replica(scheduler, ReplicaConfig(limits=limits, time_model=step_time))
    scheduler.replica = replica
    for number, (arrival_s, prompt, output, tbt_s) in enumerate(requests):
        request = Request(number, arrival_s, prompt, output, math.inf, 1.0, "spotcheck", tbt_target_s=tbt_s)
        replica.enqueue(request, output)
    time_s = replica.advance(0.0)
    while time_s < math.inf:
        time_s = replica.advance(time_s)
    replica.stop(math.inf)
    return replica.outcome(), scheduler.holds

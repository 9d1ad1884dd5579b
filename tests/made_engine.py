"""A serving engine without a model, for tests of what measures engines: the policy functions and blocks of KV.

And an episode for it.
"""

import time

import numpy as np

from servestudy.spotcheck.clock import RealClock
from servestudy.spotcheck.episode import Episode
from servestudy.spotcheck.policy import DECODING, PREFILLING, WAITING, Candidate, admissible, blocks_of, compose
from servestudy.spotcheck.presets import BLOCK_TOKENS, Preset
from servestudy.spotcheck.replay import Step

SMALL = Preset("small", 1, 32, 64, 4, 2, 256, 64, 8_000, 2_000, 16, 40, 24, "float32")
RECORD = {
    "device": {"kind": "cpu", "name": "a made device"},
    "packages": {"torch": None},
    "preset": {"name": "small", "budget": SMALL.budget, "max_num_seqs": SMALL.max_num_seqs},
    "engine": {"name": "a made engine", "clock": "RealClock"},
    "fingerprint": "f" * 16,
    "traces": "made traces (synthetic)",
}


def made_episode(source="azure_made", number=0, n=24) -> Episode:
    draws = np.random.default_rng(number + len(source))
    return Episode(
        source,
        f"{source}_w{number:02d}",
        number,
        np.cumsum(draws.exponential(0.1, n)),
        draws.integers(5, 80, n),
        draws.integers(2, 12, n),
        np.full(n, 20.0),
    )


class MadeEngine:
    """Steps take `step_s` of real time. `fail_at`: number of the `begin` whose replay fails in its third step."""

    name = "a made engine"
    block_tokens = BLOCK_TOKENS
    busy_s = 0.0

    def __init__(self, step_s: float = 0.0003, fail_at: int = -1, slow_at: int = -1):
        self._step_s, self._fail_at, self._slow_at = step_s, fail_at, slow_at
        self.begun = 0

    def make_clock(self):
        return RealClock()

    def begin(self, arm, kv_tokens, clock):
        self._arm, self._clock, self._kv_blocks = arm, clock, kv_tokens // BLOCK_TOKENS
        self._mean = arm.step_mean()
        self._jobs, self._left, self._made, self._last_s = {}, {}, {}, {}
        self._active: list[int] = []
        self._queue: list[int] = []
        self._steps = 0
        self.begun += 1

    def submit(self, job):
        self._jobs[job.request_id] = job
        self._left[job.request_id], self._made[job.request_id] = len(job.prompt), 0
        self._queue.append(job.request_id)

    def _candidate(self, request_id):
        job = self._jobs[request_id]
        state = WAITING if request_id in self._queue else PREFILLING if self._left[request_id] else DECODING
        return Candidate(
            request_id, job.arrival_s, len(job.prompt), state, self._last_s.get(request_id, 0.0), job.tbt_s
        )

    def step(self):
        if not self._active and not self._queue:
            return None
        self._steps += 1
        if self.begun == self._fail_at and self._steps == 3:
            raise MemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        start_s = self._clock.now_s()
        taken = sum(blocks_of(len(self._jobs[i].prompt) + self._made[i], BLOCK_TOKENS) for i in self._active)
        order = self._arm.decide(
            map(self._candidate, [*self._active, *self._queue]),
            self._mean.now_s(start_s),
            self._mean.mean_s,
            taken / self._kv_blocks,
        )
        order = admissible(order, SMALL.max_num_seqs - len(self._active), self._kv_blocks - taken, BLOCK_TOKENS)
        tokens = compose(order, SMALL.budget, self._left.__getitem__)
        for request_id in [i for i in tokens if i in self._queue]:
            self._queue.remove(request_id)
            self._active.append(request_id)
        time.sleep(0.8 if self.begun == self._slow_at and self._steps == 3 else self._step_s)
        self._clock.step_took(sum(tokens.values()))
        end_s = self._clock.now_s()
        self._mean.add(end_s - start_s)
        made = []
        for request_id, number in tokens.items():
            self._left[request_id] -= number if self._left[request_id] else 0
            if not self._left[request_id]:
                made.append(request_id)
                self._made[request_id] += 1
                self._last_s[request_id] = self._mean.now_s(end_s)
        finished = tuple(i for i in made if self._made[i] == self._jobs[i].output_tokens)
        self._active = [i for i in self._active if i not in finished]
        held = sum(1 for i in self._active if not self._left[i] and i not in tokens)
        return Step(
            sum(tokens.values()),
            len(tokens),
            0,
            held,
            len(self._active),
            len(self._queue),
            taken,
            0,
            tuple(made),
            finished,
        )

    def end(self):
        pass

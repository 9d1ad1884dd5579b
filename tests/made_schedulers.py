"""Schedulers for tests of the serving engine: careless and random ones."""

import random
from dataclasses import dataclass, field

from servestudy.schedulers.protocol import UNTIL_EVENT, Action, ReplicaView, Request, Scheduler


def requests_of(rows: list[tuple[float, int, int]]) -> tuple[list[Request], list[int]]:
    """From rows of (seconds since the one before, prompt tokens, output tokens)."""
    requests, time_s = [], 0.0
    for request_id, (gap_s, prompt, output) in enumerate(rows):
        time_s += gap_s
        requests.append(Request(request_id, time_s, prompt, output, time_s + 10.0, 1.0, "a"))
    return requests, [output for _, _, output in rows]


@dataclass
class RandomScheduler(Scheduler):
    """Admits, holds (one by one and by cohort), preempts, rejects and cuts prompts at random.

    Draws only at events and at times that it has announced, so that its decisions stand in between. Every id that it
    names may be wrong.
    """

    seed: int
    prefill_first: bool = False
    chunked_prefill: bool = True
    rng: random.Random = field(init=False)

    def reset(self) -> None:
        self.rng = random.Random(self.seed)
        self._seen = None
        self._until_s = 0.0
        self._prefill = None
        self._hold = self._hold_cohorts = frozenset()

    def _some(self, requests: list[Request], share: float) -> list[int]:
        return [request.request_id for request in requests if self.rng.random() < share]

    def decide(self, view: ReplicaView) -> Action:
        prefilling = [r for r in view.running if view.prefill_left(r.request_id)]
        news = view.joined or view.finished or len(prefilling) != self._seen or view.time_s >= self._until_s
        if not news:
            valid = 1 if prefilling else UNTIL_EVENT
            return self._keep_on(valid)
        rng = self.rng
        preempt = self._some(view.running, 0.1) if rng.random() < 0.3 else []
        stay = [r for r in view.running if r.request_id not in preempt]
        self._hold = frozenset(self._some(stay, 0.3)) if rng.random() < 0.4 else frozenset()
        self._hold_cohorts = frozenset(cohort for cohort in range(3) if rng.random() < 0.2)
        reject = self._some(list(view.waiting), 0.05)
        admit = [i for i in self._some(list(view.waiting), 0.6) if i not in reject]
        if rng.random() < 0.1:
            admit.append(10_000)
        self._prefill = None
        if rng.random() < 0.4:
            named = [r.request_id for r in prefilling] + admit
            rng.shuffle(named)
            most = (1, 300) if self.chunked_prefill else (10_000, 10_000)
            self._prefill = {i: rng.randint(*most) for i in named if rng.random() < 0.9}
        self._until_s = view.time_s + rng.choice([0.03, 0.2, 1.0])
        self._seen = len(prefilling)
        valid = 1 if prefilling or admit else UNTIL_EVENT
        regroup = {i: rng.randrange(3) for i in self._some(stay, 0.3) + ([10_000] if rng.random() < 0.1 else [])}
        return self._keep_on(valid)._replace(admit=admit, preempt=preempt, reject=reject, regroup=regroup)

    def _keep_on(self, valid_steps: int) -> Action:
        return Action(
            hold=self._hold,
            hold_cohorts=self._hold_cohorts,
            prefill=self._prefill,
            valid_steps=valid_steps,
            valid_until_s=self._until_s,
        )

    def victim(self, running: list[Request]) -> int:
        return running[len(running) // 2].request_id


class Greedy(Scheduler):
    """Admits everything that waits, whether it fits or not."""

    def decide(self, view: ReplicaView) -> Action:
        return Action([request.request_id for request in view.queue])

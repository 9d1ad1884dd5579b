"""From a frozen window to the requests of one cell: synthesis of the missing fields, and load scaling.

Source of the rules: the published study's `stage0_synthesis_v1` and its load regions. Times stay on the float
grid of the source: they are differences and running sums of doubles, never rounded, because the load KNEE lies
on the boundary of one violation by construction and a nanosecond decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from servestudy.audit.rules import PUBLISHED, SynthesisRules
from servestudy.errors import UserError
from servestudy.schedulers.protocol import Request
from servestudy.seeds import stream

REGIONS = {
    "LOW": 0.5,
    "PRE_KNEE": 0.8,
    "KNEE": 1.0,
    "POST_KNEE": 1.1,
    "OVERLOAD": 1.2,
    "HIGH_PRESSURE": 1.5,
}
"""Load regions: multiples of a window's reference load factor."""

NOISE_SEED_BASE = 900_000
SLACK_MULTIPLIER = 20
CLASS_ID = "stage0_uniform"


@dataclass(frozen=True)
class Workload:
    """The requests of a window, one array entry a request, in arrival order; ids are 0, 1, 2 ...

    `deadline_s` is the completion deadline that schedulers see. A request is on time if its first token comes by
    `ttft_deadline_s` and its last by `judged_deadline_s`. None: one class, no target for tokens, judged as seen.
    """

    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    predicted_output_tokens: np.ndarray
    deadline_s: np.ndarray
    weight: np.ndarray
    class_id: Sequence[str] | None = None
    ttft_deadline_s: np.ndarray | None = None
    tbt_target_s: np.ndarray | None = None
    judged_deadline_s: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)

    def requests(self) -> list[Request]:
        """The requests as schedulers see them: without the true output length."""
        columns = (
            self.arrival_s,
            self.prompt_tokens,
            self.predicted_output_tokens,
            self.deadline_s,
            self.weight,
        )
        classes = repeat(CLASS_ID) if self.class_id is None else self.class_id
        targets = (
            repeat(math.inf) if column is None else column.tolist()
            for column in (self.ttft_deadline_s, self.tbt_target_s)
        )
        rows = zip(range(len(self)), *(column.tolist() for column in columns), classes, *targets, strict=False)
        return [Request._make(row) for row in rows]


def noise_sigma(cv: float) -> float:
    """Standard deviation of the logarithm of log-normal noise with this coefficient of variation."""
    return np.sqrt(np.log(1 + cv**2))


NOISE_SIGMA = noise_sigma(PUBLISHED.synthesis.noise_cv)


def synthesize(
    time_s: np.ndarray,
    prompt_tokens: np.ndarray,
    output_tokens: np.ndarray,
    window_number: int,
    source: str = "",
    rules: SynthesisRules = PUBLISHED.synthesis,
) -> Workload:
    """Add predicted output, deadline and weight to a window's rows.

    Parameters: three arrays of equal length in file order, times in seconds of any origin; `window_number` is
    the number at the end of the window id and the only thing that the prediction noise depends on (so windows of
    different sources share their noise: a known property of the published study).

    The predicted output is the true one times log-normal noise of median 1, rounded half to even and kept within
    1 and 4096. The true output is not clipped. The deadline uses the *predicted* output. All this is under the
    published `rules`; `source` matters under others only.

    Raises UserError for an empty window, for token counts below 1 and for times that are not finite.
    """
    if not len(time_s):
        raise UserError("the window holds no request: nothing to synthesize")
    if not np.isfinite(time_s).all():
        row = int(np.flatnonzero(~np.isfinite(time_s))[0])
        raise UserError(f"window row {row}: time {time_s[row]} is not a finite number of seconds")
    for name, tokens in (("prompt_tokens", prompt_tokens), ("output_tokens", output_tokens)):
        if (tokens < 1).any():
            row = int(np.flatnonzero(tokens < 1)[0])
            raise UserError(f"window row {row}: {name} is {tokens[row]}, must be at least 1")

    if rules.spread_whole_seconds:
        time_s = spread_within_seconds(time_s)
    order = np.argsort(time_s, kind="stable")
    time_s, prompt, output = time_s[order], prompt_tokens[order], output_tokens[order]
    noise = _noise_stream(rules, source, window_number).lognormal(0.0, noise_sigma(rules.noise_cv), len(time_s))
    predicted = np.clip(np.rint(output * noise), 1, rules.max_predicted_tokens).astype(np.int64)
    arrival = np.maximum(0.0, time_s - time_s[0])
    planned_output = output if rules.deadline_from_true_output else predicted
    service = rules.seconds_per_prompt_token * prompt + rules.seconds_per_output_token * planned_output
    class_id, weight = None, np.ones(len(time_s))
    if rules.classes:
        names, weights, shares = zip(*rules.classes, strict=True)
        drawn = stream("request classes", source, window_number).choice(len(names), len(time_s), p=shares)
        class_id, weight = [names[place] for place in drawn], np.array(weights, dtype=float)[drawn]
    return Workload(
        arrival_s=arrival,
        prompt_tokens=prompt.astype(np.int64),
        output_tokens=output.astype(np.int64),
        predicted_output_tokens=predicted,
        deadline_s=arrival + rules.slack_multiplier * service,
        weight=weight,
        class_id=class_id,
    )


def _noise_stream(rules: SynthesisRules, source: str, window_number: int) -> np.random.Generator:
    if rules.noise_per_source:
        return stream("prediction noise", source, window_number, rules.noise_draw)
    if rules.noise_draw:
        return stream("prediction noise", window_number, rules.noise_draw)
    return np.random.default_rng(NOISE_SEED_BASE + window_number)


def spread_within_seconds(time_s: np.ndarray) -> np.ndarray:
    """Arrivals of the same whole second spread evenly over it, in their order; other traces stay as they are."""
    if (time_s != np.floor(time_s)).any():
        return time_s
    _, second, count = np.unique(time_s, return_inverse=True, return_counts=True)
    order = np.argsort(second, kind="stable")
    place = np.empty(len(time_s), dtype=np.int64)
    place[order] = np.arange(len(time_s)) - np.repeat(np.cumsum(count) - count, count)
    return time_s + place / count[second]


def rescale(
    workload: Workload, load_factor: float, slack_ratio: float = 1.0, slack_divisor: float | None = None
) -> Workload:
    """Divide the gaps between arrivals, and the slack before each deadline, by `load_factor` (> 0).

    Arrivals are a running float sum of scaled gaps. Always scale the unscaled window: factors do not chain.
    `slack_ratio` multiplies the slack: another definition of the SLO than the study's, whose ratio is 1.
    `slack_divisor` is what divides the slack if it is not the load factor; 1 leaves the SLO independent of the load.
    """
    divisor = load_factor if slack_divisor is None else slack_divisor
    gaps = np.maximum(0.0, np.diff(workload.arrival_s)) / load_factor
    arrival = np.concatenate(([0.0], np.cumsum(gaps)))

    def moved(deadline_s: np.ndarray | None) -> np.ndarray | None:
        if deadline_s is None:
            return None
        slack = np.maximum(0.0, deadline_s - workload.arrival_s)
        return arrival + slack * slack_ratio / divisor

    return replace(
        workload,
        arrival_s=arrival,
        deadline_s=moved(workload.deadline_s),
        ttft_deadline_s=moved(workload.ttft_deadline_s),
        tbt_target_s=None if workload.tbt_target_s is None else workload.tbt_target_s * slack_ratio / divisor,
        judged_deadline_s=moved(workload.judged_deadline_s),
    )

"""The rate and the targets of a window on an engine, measured under first come, first served.

The published study looks for the rate at which one request of 200 is late, which most of its windows exceed at any
rate. Here the engine's throughput and the growth of its queue decide, and a window without a bracket says so.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

import numpy as np

from servestudy.spotcheck.episode import Episode
from servestudy.spotcheck.policy import ARMS
from servestudy.spotcheck.presets import Preset
from servestudy.spotcheck.replay import Engine, Job, Replay, replay

TBT_STEPS = 8
"""Mean steps of a burst in the target time between tokens: SLAI holds nothing below five."""
PROBE_TOKENS = 12
SHARES = (0.6, 0.9, 1.3, 1.8)
"""Of the burst's rate, tried from the second on, up or down. They go well above it, since the burst counts the time in
which its last requests end."""
FINISHED_SHARE = 0.97
LIMIT_S = 300.0


@dataclass(frozen=True)
class Calibration:
    """Times in seconds, rates in requests a second.

    rate_rps: what the engine just sustains, the middle between a sustained and an unsustained rate. bracketed: both
    were seen; if not, `rate_rps` is that of the burst. tbt_s, ttft_s: targets.
    """

    prefill_s: float
    decode_step_s: float
    burst_rate_rps: float
    mean_step_s: float
    slow_step_s: float
    rate_rps: float
    bracketed: bool
    tbt_s: float
    ttft_s: float
    tried_rps: tuple[float, ...]
    sustained: tuple[bool, ...]

    def as_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict) -> "Calibration":
        return cls(**{f.name: values[f.name] for f in fields(cls)})


def calibrate(engine: Engine, episode: Episode, preset: Preset) -> Calibration:
    """Probe with one request, a burst of all at once, then open loops around the burst's rate.

    The burst includes its drain, so it should be some five batches long; beyond, its rate is a lower bound and the open
    loops decide. Raises as `replay`.
    """

    def run(jobs: list[Job]) -> Replay:
        return replay(engine, jobs, ARMS["fcfs"], preset.kv_tokens, engine.make_clock(), LIMIT_S)

    mean_prompt = max(1, round(float(np.mean(episode.prompt_tokens))))
    prompt = [3 + place % (preset.vocabulary - 3) for place in range(mean_prompt)]
    probe = run([Job(0, 0.0, prompt, PROBE_TOKENS, 0.0)]).token_s(0)
    prefill_s, decode_step_s = float(probe[0]), float(np.median(np.diff(probe)))
    burst = run(episode.jobs(None, preset.vocabulary))
    lengths_s = np.subtract(burst.end_s, burst.start_s)
    full = [step.tokens >= preset.budget for step in burst.steps]
    full_step_s = float(np.median(lengths_s[full] if any(full) else lengths_s))
    burst_rate = len(episode) / burst.makespan_s
    tried: dict[float, bool] = {}

    def is_sustained(share: float) -> bool:
        rate = share * burst_rate
        jobs = episode.jobs(rate, preset.vocabulary)
        tried[rate] = sustained(run(jobs), jobs)
        return tried[rate]

    low, high = _bracket(is_sustained)
    bracketed = bool(low and high)
    if bracketed:
        middle = (low + high) / 2
        low, high = (middle, high) if is_sustained(middle) else (low, middle)
    share = (low + high) / 2 if bracketed else 1.0
    return Calibration(
        prefill_s=prefill_s,
        decode_step_s=decode_step_s,
        burst_rate_rps=burst_rate,
        mean_step_s=burst.mean_step_s,
        slow_step_s=float(np.percentile(lengths_s, 99)),
        rate_rps=share * burst_rate,
        bracketed=bracketed,
        tbt_s=TBT_STEPS * burst.mean_step_s,
        ttft_s=5 * prefill_s + 2 * full_step_s,
        tried_rps=tuple(tried),
        sustained=tuple(tried.values()),
    )


def _bracket(is_sustained: Callable[[float], bool]) -> tuple[float, float]:
    """The neighbours among SHARES of which the lower is sustained and the higher is not; 0 for one not found."""
    first = 1
    if is_sustained(SHARES[first]):
        low = SHARES[first]
        for share in SHARES[first + 1 :]:
            if not is_sustained(share):
                return low, share
            low = share
        return low, 0.0
    high = SHARES[first]
    for share in reversed(SHARES[:first]):
        if is_sustained(share):
            return share, high
        high = share
    return 0.0, high


def sustained(result: Replay, jobs: list[Job]) -> bool:
    """Whether the queue does not grow: in the last third of the arrivals not longer than in the middle one.

    Also if at the last arrival nearly all that came are done.
    """
    last_s = jobs[-1].arrival_s
    start_s = np.array(result.start_s)
    waiting = np.array([step.waiting for step in result.steps])
    middle = waiting[(start_s >= last_s / 3) & (start_s < 2 * last_s / 3)]
    last = waiting[(start_s >= 2 * last_s / 3) & (start_s <= last_s)]
    done = sum(result.token_s(job.request_id)[-1] <= last_s for job in jobs)
    if done >= math.floor(FINISHED_SHARE * len(jobs)):
        return True
    return bool(len(middle) and len(last) and last.mean() <= middle.mean())

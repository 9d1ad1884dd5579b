"""The serving engine of the simulator under the spot-check's arms, against steps and times seen on two real engines."""

from dataclasses import replace

import numpy as np
import pytest
from virtual_clock import AGREEMENT, AMPLE, LITTLE, TBT_S, in_simulator, jobs

from servestudy.errors import UserError
from servestudy.spotcheck.policy import ARMS, Slai
from servestudy.spotcheck.simulator import StepTime


def run(rate_rps, arm, kv_tokens=AMPLE, tbt_s=TBT_S, n=300):
    requests = jobs(rate_rps, n, tbt_s)
    outcome, holds = in_simulator(arm, requests, kv_tokens)
    arrival_s = np.array([each.arrival_s for each in requests])[outcome.completed_ids]
    ttft_s, latency_s = np.sort(outcome.first_token_s - arrival_s), outcome.completion_s - arrival_s
    return outcome, holds, ttft_s, latency_s


@pytest.mark.parametrize("row", AGREEMENT, ids=lambda row: f"{row.arm} at {row.rate_rps:g}/s")
def test_with_ample_kv_the_simulator_takes_the_engines_steps(row):
    outcome, _, ttft, latency = run(row.rate_rps, ARMS[row.arm])
    assert outcome.last_step + 1 == row.steps
    assert outcome.preemptions.sum() == 0
    assert (outcome.sim_duration_s, ttft[150], ttft[297], latency.mean()) == pytest.approx(row[3:], abs=0.0055)


@pytest.mark.parametrize(
    ("arm", "steps", "latency_s"), [("fcfs", 3027, 0.253), ("slai", 3024, 0.258)]
)  # vLLM's; victims are each engine's own
def test_with_little_kv_the_simulator_is_close_to_the_engines(arm, steps, latency_s):
    outcome, _, _, latency = run(22, ARMS[arm], kv_tokens=LITTLE)
    assert outcome.last_step + 1 == pytest.approx(steps, rel=0.002)
    assert latency.mean() == pytest.approx(latency_s, rel=0.01)
    assert outcome.preemptions.sum() > 0


def test_slai_gives_first_tokens_sooner_and_completions_later():
    (_, _, fcfs_ttft, fcfs_latency), (_, holds, ttft, latency) = run(90, ARMS["fcfs"]), run(90, ARMS["slai"])
    assert holds > 0
    assert np.median(ttft) < np.median(fcfs_ttft)
    assert latency.mean() > fcfs_latency.mean()


def test_with_tbt_below_five_mean_steps_slai_holds_nothing():
    _, holds, *_ = run(90, ARMS["slai"], tbt_s=0.0199, n=120)  # a step takes 4 ms at least
    assert holds == 0


def test_the_published_variant_holds_nothing_as_its_decodes_go_before_prefills():
    _, holds, *_ = run(90, ARMS["slai_as_published"], tbt_s=0.5, n=120)
    assert holds == 0


def test_another_offset_is_another_schedule():
    far = replace(ARMS["slai"], slai=Slai(offset_steps=1))
    assert run(90, far, n=120)[1] > run(90, ARMS["slai"], n=120)[1]


def test_a_run_repeats_to_the_bit():
    first, second = (run(90, ARMS["slai"], n=120)[0] for _ in range(2))
    assert first.completion_s.tobytes() == second.completion_s.tobytes()


def test_fitted_step_times_are_those_that_made_the_steps_whatever_a_few_slow_ones_say():
    draws = np.random.default_rng(0)
    tokens, requests, kv = (draws.integers(1, high, 400).astype(float) for high in (256, 30, 5000))
    seconds = 0.005 + 2e-4 * tokens + 1e-3 * requests + 1e-6 * kv
    seconds[::50] += 1.0
    found = StepTime.fitted(tokens, requests, kv, seconds)
    fit = np.array([found.base_s, found.token_s, found.decode_s, found.kv_token_s])
    assert fit == pytest.approx([0.005, 2e-4, 1e-3, 1e-6], rel=0.15)


def test_too_few_steps_for_a_fit_are_refused():
    with pytest.raises(UserError, match="9 measured steps are too few"):
        StepTime.fitted(*np.ones((4, 9)))

"""Descriptors of a window: values worked out by hand, and what is undefined."""

import math
import statistics

import numpy as np
import pytest

from servestudy.windows.descriptors import descriptors


def test_values_worked_out_by_hand():
    prompt, output = [100, 200, 300, 400, 8000], [10, 10, 20, 20, 192]
    time_s = [10.0, 14.0, 12.0, 12.0, 18.0]  # gaps 2, 0, 2, 4 in order of time
    found = descriptors(np.array(time_s), np.array(prompt), np.array(output))
    gap_sd = math.sqrt(2.0)
    expected = {
        "duration_s": 8.0,
        "arrival_rate_rps": 5 / 8,
        "interarrival_mean_s": 2.0,
        "interarrival_cv": gap_sd / 2,
        "burstiness_b": (gap_sd - 2) / (gap_sd + 2),
        "prompt_tokens_mean": 1800.0,
        "prompt_tokens_p50": 300.0,
        "prompt_tokens_p90": 400 + 0.6 * 7600,
        "prompt_tokens_p95": 400 + 0.8 * 7600,
        "prompt_tokens_p99": 400 + 0.96 * 7600,
        "prompt_tokens_cv": math.sqrt((1700**2 + 1600**2 + 1500**2 + 1400**2 + 6200**2) / 5) / 1800,
        "output_tokens_mean": 50.4,
        "output_tokens_p50": 20.0,
        "output_tokens_p90": 20 + 0.6 * 172,
        "output_tokens_p95": 20 + 0.8 * 172,
        "output_tokens_p99": 20 + 0.96 * 172,
        "output_tokens_cv": math.sqrt((2 * 40.4**2 + 2 * 30.4**2 + 141.6**2) / 5) / 50.4,
        "prompt_output_correlation": statistics.correlation(prompt, output),
        "long_context_fraction": 0.2,  # 8000 + 192 reaches 8192
        "concurrency_proxy": 5 / 8 * 50.4,
        "kv_pressure_proxy": 1850.4,
    }
    assert found == pytest.approx(expected, rel=1e-14)


def undefined(*arrays):
    found = descriptors(*map(np.array, arrays))
    return {name for name, value in found.items() if math.isnan(value)}


def test_all_requests_at_one_moment():
    assert undefined([5.0, 5.0, 5.0], [1, 2, 3], [3, 1, 1]) == {
        "arrival_rate_rps",
        "interarrival_cv",
        "burstiness_b",
        "concurrency_proxy",
    }


def test_a_single_request():
    assert undefined([5.0], [7], [3]) == {
        "arrival_rate_rps",
        "interarrival_mean_s",
        "interarrival_cv",
        "burstiness_b",
        "prompt_output_correlation",
        "concurrency_proxy",
    }


@pytest.mark.parametrize("constant", [0, 1])
def test_no_correlation_with_a_constant(constant):
    tokens = [[1, 2, 3], [9, 4, 1]]
    tokens[constant] = [7, 7, 7]
    assert undefined([1.0, 2.0, 4.0], *tokens) == {"prompt_output_correlation"}


def test_regular_arrivals_are_the_least_bursty():
    assert descriptors(np.arange(5.0), np.arange(1, 6), np.arange(1, 6))["burstiness_b"] == -1.0


def test_the_order_of_arrivals_does_not_matter():
    rng = np.random.default_rng(1)
    time_s, prompt, output = rng.random(50), rng.integers(1, 99, 50), rng.integers(1, 99, 50)
    order = np.argsort(time_s, kind="stable")
    assert (
        descriptors(time_s, prompt, output)["interarrival_cv"]
        == (descriptors(time_s[order], prompt[order], output[order])["interarrival_cv"])
    )

"""Synthesis and load scaling."""

from dataclasses import replace

import numpy as np
import pytest

from servestudy.errors import UserError
from servestudy.workload import REGIONS, rescale, synthesize


def small_window(**changes):
    window = {
        "time_s": np.array([12.5, 10.0, 10.0, 11.0]),
        "prompt_tokens": np.array([5, 100, 200, 300]),
        "output_tokens": np.array([9, 1, 9000, 40]),
    }
    return window | changes


def test_rows_are_sorted_by_time_and_ties_keep_file_order():
    load = synthesize(**small_window(), window_number=3)
    assert load.arrival_s.tolist() == [0.0, 0.0, 1.0, 2.5]
    assert load.prompt_tokens.tolist() == [100, 200, 300, 5]


def test_prediction_is_noisy_and_clipped_but_the_true_output_is_not():
    load = synthesize(**small_window(), window_number=3)
    assert load.output_tokens.max() == 9000
    assert load.predicted_output_tokens.max() == 4096
    assert load.predicted_output_tokens.min() >= 1
    other = synthesize(**small_window(output_tokens=np.array([900] * 4)), window_number=4)
    assert len(set(other.predicted_output_tokens.tolist())) == 4


def test_noise_depends_on_the_window_number_only():
    one = synthesize(**small_window(), window_number=3)
    same = synthesize(**small_window(prompt_tokens=np.array([1, 2, 3, 4])), window_number=3)
    other = synthesize(**small_window(), window_number=5)
    assert (one.predicted_output_tokens == same.predicted_output_tokens).all()
    assert (one.predicted_output_tokens != other.predicted_output_tokens).any()


def test_the_deadline_uses_the_predicted_output():
    load = synthesize(**small_window(), window_number=3)
    expected = 20 * (0.0004 * load.prompt_tokens + 0.02 * load.predicted_output_tokens)
    assert load.deadline_s == pytest.approx(load.arrival_s + expected)


def test_scaling_divides_gaps_and_slack():
    load = synthesize(**small_window(), window_number=3)
    half = rescale(load, 2.0)
    assert half.arrival_s.tolist() == [0.0, 0.0, 0.5, 1.25]
    assert half.deadline_s - half.arrival_s == pytest.approx((load.deadline_s - load.arrival_s) / 2)


def test_slack_is_never_negative_after_scaling():
    load = synthesize(**small_window(), window_number=3)
    late = rescale(replace(load, deadline_s=load.arrival_s - 1), 2.0)
    assert (late.deadline_s == late.arrival_s).all()


def test_scheduler_requests_carry_no_true_output():
    requests = synthesize(**small_window(), window_number=3).requests()
    assert [request.request_id for request in requests] == [0, 1, 2, 3]
    assert "output_tokens" not in requests[0]._fields


def test_regions_are_ordered_by_load():
    assert list(REGIONS.values()) == sorted(REGIONS.values())
    assert REGIONS["KNEE"] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time_s": np.array([1.0, np.nan, 2.0, 3.0])}, "window row 1: time nan"),
        ({"prompt_tokens": np.array([1, 2, 0, 4])}, "window row 2: prompt_tokens is 0"),
        ({"output_tokens": np.array([1, -2, 3, 4])}, "window row 1: output_tokens is -2"),
        ({name: np.array([]) for name in ("time_s", "prompt_tokens", "output_tokens")}, "holds no request"),
    ],
)
def test_bad_windows_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        synthesize(**small_window(**change), window_number=0)


def test_a_window_of_one_request():
    load = rescale(synthesize(np.array([7.0]), np.array([3]), np.array([4]), 0), 10.0)
    assert load.arrival_s.tolist() == [0.0]

"""Jumping equals stepping for every serving scheduler on 36 windows in all regions; some minutes, so not in the suite.

pytest tests/slow_serving_jumps.py
"""

import pytest
from serving_jumps import compare, with_scarce_kv

from servestudy.serving_model import load_serving_model

PER_SOURCE = 12


@pytest.mark.parametrize("source", ["azure_like", "bailian_like", "burstgpt_like"])
def test_jumping_equals_stepping_in_the_serving_model(embedded_windows, source, state_fact):
    ample = load_serving_model()
    scarce = with_scarce_kv(ample)
    cells = preemptions = 0
    windows = embedded_windows[source][:PER_SOURCE]
    for number, window in enumerate(windows):
        counts = compare(scarce if number % 3 == 0 else ample, window)
        cells += counts[0]
        preemptions += counts[1]
    assert preemptions
    state_fact(
        f"serving, jumping equals stepping: {source}: {len(windows)} windows, {cells} cells, {preemptions} preemptions"
    )

"""Jumping equals stepping for every serving scheduler on windows of the embedded traces, KV ample and scarce.

Two windows of each source, half of the regions each. tests/slow_serving_jumps.py does it for 36 windows in all regions.
"""

import pytest
from serving_jumps import SCHEDULERS, compare, with_scarce_kv

from servestudy.serving_model import load_serving_model
from servestudy.workload import REGIONS


@pytest.mark.parametrize("kv", ["ample", "scarce"])
def test_jumping_equals_stepping_in_the_serving_model(embedded_windows, kv, state_fact):
    model = load_serving_model()
    regions = tuple(REGIONS)[::2]
    if kv == "scarce":
        model, regions = with_scarce_kv(model), tuple(REGIONS)[1::2]
    windows = [windows[0 if kv == "ample" else -1] for windows in embedded_windows.values()]
    counts = [compare(model, window, regions) for window in windows]
    cells, preemptions = map(sum, zip(*counts, strict=True))
    assert cells == len(windows) * len(regions) * len(SCHEDULERS)
    assert preemptions > 100 or kv == "ample"
    state_fact(f"serving, jumping equals stepping: {cells} cells, KV {kv}, {preemptions} preemptions")

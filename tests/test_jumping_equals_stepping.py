"""Jumping over uneventful steps gives the same outcome, to the last bit, as calling the scheduler in every step."""

from dataclasses import asdict

import numpy as np
import pytest

from servestudy.calibration import calibrate
from servestudy.engine.fixed_step import DRAIN_STEPS, run
from servestudy.metrics import cell_metrics
from servestudy.schedulers.registry import make_scheduler, schedulers_of
from servestudy.simulation import outcome_hash
from servestudy.workload import REGIONS, rescale, synthesize

SCHEDULERS = list(schedulers_of("published"))
SHORT_DRAIN = 1_000
"""Starved runs step through this many steps instead of 50,000, except in the test of the full drain."""


def both_ways(window, lambda_ref, region, scheduler, drain_steps):
    """(metrics, telemetry, outcome hash, last step) by jumping and by stepping."""
    unscaled = synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number)
    load = rescale(unscaled, lambda_ref * REGIONS[region])
    results = []
    for step_by_step in (False, True):
        outcome = run(
            load.requests(),
            load.output_tokens.tolist(),
            make_scheduler(scheduler),
            drain_steps=drain_steps,
            step_by_step=step_by_step,
        )
        results.append(
            repr((cell_metrics(outcome, load), asdict(outcome.telemetry), outcome_hash(outcome), outcome.last_step))
        )
    return results


def lambda_ref(window):
    return calibrate(synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number)).lambda_ref


def spread(windows_by_source, per_source):
    """A few windows of each source, first and last among them."""
    for windows in windows_by_source.values():
        for place in np.linspace(0, len(windows) - 1, per_source).round().astype(int):
            yield windows[place]


def check(windows, state_fact, what):
    loads = {window.window_id: lambda_ref(window) for window in windows}
    cells = [(window, region, name) for window in windows for region in REGIONS for name in SCHEDULERS]
    for window, region, name in cells:
        jumped, stepped = both_ways(window, loads[window.window_id], region, name, SHORT_DRAIN)
        assert jumped == stepped, (window.window_id, region, name)
    state_fact(f"jumping equals stepping: {len(cells)} cells of {len(windows)} {what} windows")


def test_embedded_windows(embedded_windows, state_fact):
    check(list(spread(embedded_windows, 3)), state_fact, "embedded")


def test_real_windows(real_windows, state_fact):
    check(list(spread(real_windows, 4)), state_fact, "real")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_full_drain(embedded_windows, scheduler):
    window = embedded_windows["azure_like"][0]
    jumped, stepped = both_ways(window, lambda_ref(window), "HIGH_PRESSURE", scheduler, DRAIN_STEPS)
    assert jumped == stepped


def test_the_full_drain_is_reached(embedded_windows):
    """The two schedulers that starve requests do end at the drain limit in the window of the test above."""
    window = embedded_windows["azure_like"][0]
    unscaled = synthesize(window.time_s, window.prompt_tokens, window.output_tokens, window.number)
    load = rescale(unscaled, lambda_ref(window) * REGIONS["HIGH_PRESSURE"])
    for scheduler in ("vllm_faithful", "scorpio_style_slo_guard"):
        outcome = run(load.requests(), load.output_tokens.tolist(), make_scheduler(scheduler))
        assert len(outcome.completed_ids) < len(load)
        assert outcome.last_step >= DRAIN_STEPS - 1

"""Replays without a real engine: their clocks, their lengths, and whether an engine sustains a rate."""

import time

import pytest
from made_engine import MadeEngine

from servestudy.spotcheck.calibrate import sustained
from servestudy.spotcheck.clock import ProcessorClock, RealClock
from servestudy.spotcheck.policy import ARMS
from servestudy.spotcheck.replay import Job, Replay, Step, replay


def test_a_request_with_too_few_tokens_is_an_error():
    class Short(MadeEngine):
        def submit(self, job):
            super().submit(job._replace(output_tokens=job.output_tokens - 1))

    with pytest.raises(RuntimeError, match="request 0 made 3 tokens instead of 4"):
        replay(Short(), [Job(0, 0.0, [3] * 5, 4, 0.1)], ARMS["fcfs"], 800, RealClock())


def test_the_processor_clock_passes_over_waits_and_counts_no_sleep():
    clock = ProcessorClock()
    clock.start()
    clock.wait_until(5.0)
    time.sleep(0.2)
    assert 5.0 <= clock.now_s() < 5.1
    while clock.now_s() < 5.1:
        sum(range(1000))
    clock.wait_until(1.0)
    assert clock.now_s() < 5.2


def test_a_queue_that_grows_is_not_sustained():
    def result(waiting: list[int]) -> tuple[Replay, list[Job]]:
        steps = [Step(1, 1, 0, 0, 1, n, 0, 0, (), ()) for n in waiting]
        times = [float(number) for number in range(len(waiting))]
        jobs = [Job(number, 9.0 * number / 7, [3], 1, 0.1) for number in range(8)]
        return Replay(times, [t + 1 for t in times], steps, {job.request_id: [len(waiting) - 1] for job in jobs}), jobs

    assert not sustained(*result([0, 0, 1, 2, 3, 4, 5, 6, 7, 8]))
    assert sustained(*result([0, 2, 3, 3, 3, 3, 2, 2, 2, 2]))

"""The published engine by itself: clock, admission, holds, evictions, drain, and schedulers that misbehave."""

import logging
from collections.abc import Callable

import numpy as np
import pytest

from servestudy.engine.fixed_step import first_step_at, run
from servestudy.schedulers.protocol import Action, ReplicaLimits, ReplicaView, Request, Scheduler
from servestudy.schedulers.published.fifo import Fifo


class Scripted(Scheduler):
    """Answers each step with what a function says; admits the whole queue if it says nothing."""

    def __init__(self, answer: Callable[[ReplicaView], Action | None]):
        self.answer = answer

    def decide(self, view: ReplicaView) -> Action:
        return self.answer(view) or Action([request.request_id for request in view.waiting])


def requests(*arrivals_s: float, prompt: int = 10) -> list[Request]:
    return [Request(number, arrival, prompt, 5, 1.0, 1.0, "any") for number, arrival in enumerate(arrivals_s)]


def test_a_request_waits_for_the_next_step_and_is_stamped_at_its_end():
    outcome = run(requests(0.0, 0.0104), [3, 1], Fifo())
    assert outcome.completed_ids.tolist() == [0, 1]
    assert outcome.first_token_step.tolist() == [0, 11]
    assert outcome.completion_step.tolist() == [2, 11]
    assert outcome.first_token_s.tolist() == [0.001, 0.012]
    assert outcome.sim_duration_s == 0.011


def test_first_step_at_is_exact_on_step_boundaries():
    steps = np.arange(0, 3_000_000, 7)
    assert (first_step_at(steps * 0.001) == steps).all()
    above = np.nextafter(steps * 0.001, np.inf)
    assert (first_step_at(above) == steps + 1).all()
    below = np.nextafter(steps[1:] * 0.001, 0)
    assert (first_step_at(below) == steps[1:]).all()


def test_idle_steps_are_not_counted():
    outcome = run(requests(0.0, 10.0), [2, 2], Fifo())
    assert outcome.telemetry.n_steps < 10
    assert outcome.last_step == 10_001


def test_slots_and_kv_bound_admission():
    outcome = run(requests(0, 0, 0), [4, 4, 4], Fifo(), ReplicaLimits(max_num_seqs=2))
    assert outcome.first_token_step.tolist() == [0, 0, 4]
    outcome = run(requests(0, 0, 0), [4, 4, 4], Fifo(), ReplicaLimits(max_kv_tokens=24))
    assert outcome.first_token_step.tolist() == [0, 0, 4]


def test_kv_may_grow_past_the_limit_but_never_evicts():
    outcome = run(requests(0, 0), [30, 30], Fifo(), ReplicaLimits(max_kv_tokens=20))
    assert outcome.telemetry.kv_occupancy_max > 1
    assert outcome.telemetry.preemption_or_reorder_events == 0


def test_a_held_request_keeps_its_tokens_and_loses_time():
    def hold_steps_2_to_4(view):
        return Action(hold={0}) if 2 <= view.step <= 4 else None

    outcome = run(requests(0), [5], Scripted(hold_steps_2_to_4))
    assert outcome.first_token_step.tolist() == [0]
    assert outcome.completion_step.tolist() == [7]


def test_a_preempted_request_starts_again_from_nothing_at_the_front_of_the_queue():
    queues = {}

    def preempt_both_in_step_3(view):
        queues[view.step] = [request.request_id for request in view.waiting]
        if view.step == 3:
            return Action(preempt=[0, 1])
        return None if view.step != 4 else Action()

    outcome = run(requests(0, 0, 0.003), [5, 5, 1], Scripted(preempt_both_in_step_3))
    assert queues[4] == [1, 0, 2]
    assert dict(zip(outcome.completed_ids.tolist(), outcome.first_token_step.tolist(), strict=True)) == {
        0: 5,
        1: 5,
        2: 5,
    }
    assert outcome.telemetry.preemption_or_reorder_events == 2


def test_a_deadlock_ends_at_the_drain_limit():
    outcome = run(requests(0, 0.5), [1, 1], Scripted(lambda view: Action()), drain_steps=100)
    assert len(outcome.completed_ids) == 0
    assert outcome.last_step == 500 + 99
    assert outcome.telemetry.n_steps == 600


def test_a_scheduler_that_answers_nonsense_is_warned_and_ignored(caplog):
    def nonsense(view):
        return Action(admit=[99, 0, 0], preempt=[7], hold={5}) if view.step == 0 else None

    with caplog.at_level(logging.WARNING):
        outcome = run(requests(0), [2], Scripted(nonsense))
    assert outcome.completion_step.tolist() == [1]
    assert "cannot admit request 99" in caplog.text
    assert "cannot preempt request 7" in caplog.text
    assert caplog.text.count("cannot admit request 0") == 1  # the second time it no longer waits


def test_admitting_what_does_not_fit_is_refused(caplog):
    limits = ReplicaLimits(max_num_seqs=1)
    with caplog.at_level(logging.WARNING):
        outcome = run(requests(0, 0), [2, 2], Scripted(lambda view: None), limits)
    assert "does not fit" in caplog.text
    assert outcome.completed_ids.tolist() == [0, 1]


def test_a_scheduler_never_sees_the_true_output_length():
    def look(view):
        for request in view.waiting:
            assert not hasattr(request, "output_tokens")
            assert 77 not in request

    run(requests(0), [77], Scripted(look))


def test_a_decision_must_stand_for_at_least_its_own_step():
    with pytest.raises(ValueError, match="step 0: valid_steps is 0"):
        run(requests(0), [1], Scripted(lambda view: Action(valid_steps=0)))


def test_an_exception_of_the_scheduler_passes_through():
    def fail(view):
        raise ZeroDivisionError("by design")

    with pytest.raises(ZeroDivisionError, match="by design"):
        run(requests(0), [1], Scripted(fail))


def test_telemetry_counts_requests_left_waiting_while_a_slot_is_free():
    """Two wait for two steps with slots free, then all run."""
    outcome = run(requests(0, 0), [1, 1], Scripted(lambda view: Action() if view.step < 2 else None))
    telemetry = outcome.telemetry
    assert telemetry.admission_control_activations == 4
    assert telemetry.queue_depth_max == 2
    assert telemetry.queue_depth_mean == 2
    assert telemetry.n_steps == 3

"""The serving engine: rules on hand-checked cases, invariants, jumps, edges."""

import logging
import math
from dataclasses import replace
from functools import wraps
from itertools import groupby
from operator import attrgetter

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from made_schedulers import Greedy, RandomScheduler, requests_of
from oracle.serving_engine import simulate

from servestudy.engine.iteration import Replica, ReplicaConfig, replica_limits, run, warn_of_extrapolation
from servestudy.engine.time_model import PROFILES
from servestudy.schedulers.protocol import UNTIL_EVENT, WAIT, Action, Scheduler
from servestudy.schedulers.serving.fcfs import Fcfs

A100 = PROFILES["llama_2_7b_a100"]
ROOMY = ReplicaConfig()
ARRAYS = ("completed_ids", "admission_s", "first_token_step", "first_token_s", "completion_step", "completion_s")


def tight(
    blocks: int, preemption: str = "recompute", max_num_seqs: int = 128, max_num_batched_tokens: int = 2048
) -> ReplicaConfig:
    return ReplicaConfig(limits=replica_limits(blocks, max_num_seqs, max_num_batched_tokens), preemption=preemption)


def assert_same(one, other) -> None:
    for name in (*ARRAYS, "preemptions"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("rejected_ids", "waiting_ids", "running_ids", "last_step", "sim_duration_s", "telemetry"):
        assert getattr(one, name) == getattr(other, name), name


def without_warnings(test):
    """Run a test without the warnings of careless schedulers, which take most of the time."""

    @wraps(test)
    def quietly(*args, **kwargs):
        logging.disable()
        try:
            return test(*args, **kwargs)
        finally:
            logging.disable(logging.NOTSET)

    return quietly


class WholePrompts(Fcfs):
    chunked_prefill = False


class PrefillFirst(Fcfs):
    prefill_first = True


def test_one_request_prefills_then_makes_one_token_an_iteration():
    requests, outputs = requests_of([(0.5, 100, 3)])
    outcome = run(requests, outputs, Fcfs())
    prefill = A100.iteration_s(100, 0, 0, 100**2)
    decodes = A100.iteration_s(1, 1, 100) + A100.iteration_s(1, 1, 101)
    assert outcome.admission_s.tolist() == [0.5]
    assert outcome.first_token_s == pytest.approx([0.5 + prefill], rel=1e-12)
    assert outcome.completion_s == pytest.approx([0.5 + prefill + decodes], rel=1e-12)
    assert (outcome.first_token_step.tolist(), outcome.completion_step.tolist(), outcome.last_step) == ([0], [2], 2)
    assert outcome.sim_duration_s == outcome.completion_s[0]


def test_a_request_of_one_output_token_completes_with_its_prefill():
    requests, outputs = requests_of([(0.0, 100, 1)])
    outcome = run(requests, outputs, Fcfs())
    assert outcome.completion_s == outcome.first_token_s == pytest.approx([A100.iteration_s(100, 0, 0, 10_000)])


def test_chunks_fill_the_budget_beside_decodes_and_cost_the_attention_of_the_whole_prompt():
    requests, outputs = requests_of([(0.0, 10, 50), (0.001, 300, 2)])
    outcome = run(requests, outputs, Fcfs(), tight(7424, max_num_seqs=4, max_num_batched_tokens=128))
    ends = [A100.iteration_s(10, 0, 0, 100)]
    cached = 0
    for chunk, kv in ((127, 10), (127, 11), (46, 12)):
        squares = (cached + chunk) ** 2 - cached**2
        ends.append(ends[-1] + A100.iteration_s(chunk + 1, 1, kv, squares))
        cached += chunk
    by_id = dict(zip(outcome.completed_ids.tolist(), outcome.first_token_s.tolist(), strict=True))
    assert by_id == pytest.approx({0: ends[0], 1: ends[-1]}, rel=1e-12)
    assert outcome.telemetry.prefill_decode_contention_fraction == pytest.approx(3 / outcome.telemetry.n_steps)
    assert outcome.telemetry.token_budget_saturation_fraction == pytest.approx(2 / outcome.telemetry.n_steps)


def test_prefill_first_makes_decodes_wait():
    requests, outputs = requests_of([(0.0, 10, 3), (0.001, 300, 2)])
    config = tight(7424, max_num_seqs=4, max_num_batched_tokens=128)
    outcome = run(requests, outputs, PrefillFirst(), config)
    # Iterations: 0 prefills request 0; 1, 2, 3 prefill request 1; 4 both decode; 5 request 0 decodes.
    assert dict(zip(outcome.completed_ids.tolist(), outcome.completion_step.tolist(), strict=True)) == {1: 4, 0: 5}
    assert outcome.first_token_step.tolist() == [3, 0]
    assert outcome.telemetry.prefill_decode_contention_fraction == 0


def test_a_whole_prompt_beyond_the_budget_runs_alone():
    requests, outputs = requests_of([(0.0, 60, 1), (0.0, 60, 1), (0.0, 300, 1), (0.0, 20, 1)])
    config = tight(7424, max_num_seqs=4, max_num_batched_tokens=128)

    class All(Greedy):
        chunked_prefill = False

    outcome = run(requests, outputs, All(), config)
    assert outcome.completed_ids.tolist() == [0, 1, 2, 3]
    assert outcome.first_token_step.tolist() == [0, 0, 1, 2]


def test_listed_prefills_go_first_and_who_is_not_listed_gets_none():
    class Listed(Greedy):
        def decide(self, view):
            prefill = {1: 40, 2: 1000} if view.step == 0 else {0: 1000, 1: 1000}
            return super().decide(view)._replace(prefill=prefill)

    requests, outputs = requests_of([(0.0, 50, 1), (0.0, 100, 1), (0.0, 80, 1)])
    outcome = run(requests, outputs, Listed(), tight(7424, max_num_seqs=4, max_num_batched_tokens=200))
    assert outcome.completed_ids.tolist() == [2, 0, 1]
    assert outcome.first_token_step.tolist() == [0, 1, 1]
    assert outcome.sim_duration_s == pytest.approx(
        A100.iteration_s(120, 0, 0, 40**2 + 80**2) + A100.iteration_s(110, 0, 0, 50**2 + 100**2 - 40**2), rel=1e-12
    )


def test_preempted_by_recomputation_prefills_prompt_and_made_tokens_again():
    class Evict(Greedy):
        def decide(self, view):
            if view.step == 3 and view.running:
                return Action(preempt=[0])
            return super().decide(view)

    requests, outputs = requests_of([(0.0, 100, 6)])
    outcome = run(requests, outputs, Evict())
    # The batch is empty once request 0 has left it, with 3 tokens made, so time stands still and the run ends.
    assert outcome.waiting_ids == (0,)
    requests, outputs = requests_of([(0.0, 100, 6), (0.0, 10, 9)])
    outcome = run(requests, outputs, Evict())
    assert dict(zip(outcome.completed_ids.tolist(), outcome.completion_step.tolist(), strict=True)) == {0: 6, 1: 8}
    assert outcome.preemptions.tolist() == [1, 0]
    assert outcome.first_token_step.tolist() == [0, 0]
    ends = A100.iteration_s(110, 0, 0, 100**2 + 10**2)
    ends += A100.iteration_s(2, 2, 110) + A100.iteration_s(2, 2, 112)
    ends += A100.iteration_s(1, 1, 12)
    ends += A100.iteration_s(104, 1, 13, 103**2)
    ends += A100.iteration_s(2, 2, 103 + 14) + A100.iteration_s(2, 2, 104 + 15)
    assert outcome.completion_s[0] == pytest.approx(ends, rel=1e-12)


def test_preempted_by_swap_keeps_its_kv_and_pays_for_both_ways():
    class Evict(Greedy):
        def decide(self, view):
            return (
                Action(preempt=[0])
                if view.step == 3 and 0 in {r.request_id for r in view.running}
                else super().decide(view)
            )

    requests, outputs = requests_of([(0.0, 100, 6), (0.0, 10, 9)])
    outcome = run(requests, outputs, Evict(), replace(ROOMY, preemption="swap"))
    swap = 102 * 524_288 / 25e9
    ends = A100.iteration_s(110, 0, 0, 100**2 + 10**2)
    ends += A100.iteration_s(2, 2, 110) + A100.iteration_s(2, 2, 112)
    ends += A100.iteration_s(1, 1, 12) + swap
    ends += A100.iteration_s(2, 2, 102 + 13) + swap
    ends += A100.iteration_s(2, 2, 103 + 14) + A100.iteration_s(2, 2, 104 + 15)
    assert outcome.completion_s[0] == pytest.approx(ends, rel=1e-12)


def test_a_decode_without_a_free_block_preempts_the_last_admitted():
    requests, outputs = requests_of([(0.0, 16, 40), (0.0, 16, 40)])
    outcome = run(requests, outputs, Fcfs(), tight(4))
    # Both hold one block, take their second in iteration 1, and want a third in iteration 17.
    assert outcome.completed_ids.tolist() == [0, 1]
    assert outcome.preemptions.tolist() == [0, 1]
    assert outcome.completion_step[0] == 39
    assert outcome.telemetry.kv_occupancy_max <= 1


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_a_victim_that_does_not_run_is_replaced_by_the_last_admitted(preemption, caplog):
    class Wrong(Fcfs):
        def victim(self, running):
            return 99

    requests, outputs = requests_of([(0.0, 16, 40), (0.0, 16, 40)])
    outcome = run(requests, outputs, Wrong(), tight(4, preemption))
    assert outcome.preemptions.tolist() == [0, 1]
    assert "cannot preempt request 99" in caplog.text


workloads = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 0.3, 2.0, 0.123]), st.integers(1, 400), st.integers(1, 80)),
    max_size=25,
)
configs = st.builds(
    tight,
    st.sampled_from([12, 30, 45, 500]),
    st.sampled_from(["recompute", "swap"]),
    max_num_seqs=st.sampled_from([1, 3, 16]),
    max_num_batched_tokens=st.sampled_from([16, 64, 512]),
)
schedulers = st.one_of(
    st.builds(RandomScheduler, st.integers(0, 10**6), st.booleans(), st.booleans()),
    st.sampled_from([Fcfs(), WholePrompts(), PrefillFirst(), Greedy()]),
)


@settings(max_examples=150, deadline=None)
@given(workloads, configs, schedulers)
@without_warnings
def test_invariants_hold_and_jumping_equals_stepping(rows, config, scheduler):
    requests, outputs = requests_of(rows)
    jumped = run(requests, outputs, scheduler, config)
    ids = [*jumped.completed_ids.tolist(), *jumped.rejected_ids, *jumped.waiting_ids, *jumped.running_ids]
    assert sorted(ids) == list(range(len(requests)))
    arrival_s = np.array([requests[i].arrival_s for i in jumped.completed_ids])
    assert (arrival_s <= jumped.admission_s).all()
    assert (jumped.admission_s < jumped.first_token_s).all()
    assert (jumped.first_token_s <= jumped.completion_s).all()
    assert (np.diff(jumped.completion_s) >= 0).all()
    assert jumped.telemetry.kv_occupancy_max <= 1
    assert jumped.telemetry.batch_saturation_max <= 1
    assert_same(jumped, run(requests, outputs, scheduler, config, step_by_step=True))


@without_warnings
def test_random_schedulers_meet_every_rule(state_fact):
    counts = dict.fromkeys(("completed", "rejected", "unfinished", "preempted"), 0)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = list(
            zip(rng.exponential(0.1, 60).tolist(), *rng.integers(1, [[300], [90]], (2, 60)).tolist(), strict=True)
        )
        requests, outputs = requests_of(rows)
        outcome = run(
            requests, outputs, RandomScheduler(seed, bool(seed % 2)), tight(60, ["swap", "recompute"][seed % 2])
        )
        counts["completed"] += len(outcome.completed_ids)
        counts["rejected"] += len(outcome.rejected_ids)
        counts["unfinished"] += len(outcome.waiting_ids) + len(outcome.running_ids)
        counts["preempted"] += outcome.telemetry.preemption_or_reorder_events
    state_fact(f"serving engine under random schedulers: {counts}")
    assert min(counts["completed"], counts["rejected"], counts["preempted"]) > 50


@without_warnings
def test_random_schedulers_meet_the_same_fate_in_a_literal_simulation():
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 25))
        gaps = rng.choice([0.0, 0.01, 0.1, 0.5, 2.0], n).tolist()
        requests, outputs = requests_of(
            list(zip(gaps, rng.integers(1, 300, n).tolist(), rng.integers(1, 60, n).tolist(), strict=True))
        )
        seqs, tokens = int(rng.choice([2, 5, 16])), int(rng.choice([16, 64, 512]))
        config = tight(int(rng.choice([25, 40, 60])), ("swap", "recompute")[seed % 2], seqs, tokens)
        swap_s = A100.kv_token_bytes / config.swap_bytes_per_s if config.preemption == "swap" else None
        scheduler = RandomScheduler(seed, bool(seed & 2), bool(seed & 4))
        outcome = run(requests, outputs, scheduler, config)
        literal = simulate(requests, outputs, scheduler, config.limits, A100.iteration_s, swap_s, config.drain_s)
        assert outcome.completed_ids.tolist() == list(literal.completion), seed
        stamps = np.array(list(literal.completion.values())).reshape(-1, 2)
        assert outcome.completion_step.tolist() == stamps[:, 0].tolist()
        assert outcome.completion_s == pytest.approx(stamps[:, 1], rel=1e-9)
        assert list(outcome.rejected_ids) == literal.rejected
        assert list(outcome.waiting_ids) == literal.waiting
        assert list(outcome.running_ids) == literal.running
        assert outcome.telemetry.preemption_or_reorder_events == literal.preemptions


def test_time_goes_on_after_a_pause_of_the_same_batch():
    class Pauses(Greedy):
        """Lets request 1 in but not prefill, so that the decodes wait for it; from second 3 on it is held."""

        prefill_first = True

        def decide(self, view):
            if view.time_s < 3.0:
                return super().decide(view)._replace(prefill={0: 1000}, valid_until_s=3.0)
            return Action(hold={1})

    requests, outputs = requests_of([(0.0, 100, 10), (0.04, 100, 10)])
    paused, alone = run(requests, outputs, Pauses()), run(requests[:1], outputs[:1], Greedy())
    assert (paused.completion_step.tolist(), paused.running_ids) == (alone.completion_step.tolist(), (1,))
    step_s = [A100.iteration_s(100, 0, 0, 100**2), *(A100.iteration_s(1, 1, 100 + made) for made in range(9))]
    before_s = next(end for end in np.cumsum(step_s) if end >= 0.04)
    assert paused.completion_s == pytest.approx(alone.completion_s + 3.0 - before_s, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(workloads, configs, schedulers)
@without_warnings
def test_a_simpy_process_that_knows_no_arrival_beforehand_gives_the_same_completions(rows, config, scheduler):
    requests, outputs = requests_of(rows)
    env = simpy.Environment()
    replica = Replica(scheduler, config)
    news = [env.event()]

    def arrivals():
        for arrival_s, same_time in groupby(requests, attrgetter("arrival_s")):
            yield env.timeout(arrival_s - env.now)
            for request in same_time:
                replica.enqueue(request, outputs[request.request_id])
            news[0].succeed()
            news[0] = env.event()

    def serve():
        while True:
            next_s = replica.advance(env.now)
            wake = [news[0]] if next_s == math.inf else [news[0], env.timeout(next_s - env.now)]
            yield env.any_of(wake)

    env.process(arrivals())
    env.process(serve())
    env.run(until=requests[-1].arrival_s + config.drain_s if requests else 1.0)
    outcome = replica.outcome()
    alone = run(requests, outputs, scheduler, config)
    assert outcome.completed_ids.tolist() == alone.completed_ids.tolist()
    for name in ARRAYS:
        assert getattr(outcome, name) == pytest.approx(getattr(alone, name), rel=1e-9)


def test_an_empty_trace_has_an_empty_outcome():
    outcome = run([], [], Fcfs())
    assert (len(outcome.completed_ids), outcome.last_step, outcome.sim_duration_s) == (0, -1, 0.0)
    assert outcome.telemetry.n_steps == 0


def test_a_request_that_could_never_run_is_rejected_on_arrival_and_the_scheduler_told():
    heard = []

    class Listens(Fcfs):
        def decide(self, view):
            heard.append((list(view.finished), [request.request_id for request in view.joined]))
            return super().decide(view)

    requests, outputs = requests_of([(0.0, 150, 10), (0.0, 150, 11), (0.0, 1, 1)])
    outcome = run(requests, outputs, Listens(), tight(10))
    assert outcome.rejected_ids == (1,)
    assert outcome.completed_ids.tolist() == [0, 2], "all ten blocks belong to the first until it is done"
    assert heard[0] == ([1], [0, 2])


@pytest.mark.parametrize("step_by_step", [False, True])
def test_a_scheduler_that_never_admits_leaves_all_waiting(step_by_step):
    class Never(Scheduler):
        def decide(self, view):
            return WAIT

    requests, outputs = requests_of([(0.0, 10, 5), (1.0, 10, 5)])
    outcome = run(requests, outputs, Never(), step_by_step=step_by_step)
    assert outcome.waiting_ids == (0, 1)
    assert outcome.telemetry.n_steps == 0


def test_a_scheduler_that_holds_for_ever_leaves_requests_running():
    class Holds(Greedy):
        def decide(self, view):
            return super().decide(view)._replace(hold={0})

    requests, outputs = requests_of([(0.0, 10, 5), (1.0, 10, 5)])
    outcome = run(requests, outputs, Holds())
    assert outcome.running_ids == (0,)
    assert outcome.completed_ids.tolist() == [1]


def test_an_idle_replica_asks_again_when_the_scheduler_said():
    class Later(Scheduler):
        def decide(self, view):
            if view.time_s < 2.5:
                return Action(valid_steps=UNTIL_EVENT, valid_until_s=view.time_s + 1.0)
            return Action([request.request_id for request in view.queue], valid_steps=UNTIL_EVENT)

    requests, outputs = requests_of([(0.0, 10, 5)])
    assert run(requests, outputs, Later()).admission_s.tolist() == [3.0]


def test_a_run_ends_when_an_iteration_would_begin_too_late():
    requests, outputs = requests_of([(0.0, 10, 1000)])
    outcome = run(requests, outputs, Fcfs(), replace(ROOMY, drain_s=1.0))
    assert outcome.running_ids == (0,)
    assert 1.0 < outcome.sim_duration_s < 1.02
    assert_same(outcome, run(requests, outputs, Fcfs(), replace(ROOMY, drain_s=1.0), step_by_step=True))


def test_an_exception_of_the_scheduler_passes_through():
    class Broken(Scheduler):
        def decide(self, view):
            raise ZeroDivisionError("in the scheduler")

    requests, outputs = requests_of([(0.0, 10, 5)])
    with pytest.raises(ZeroDivisionError, match="in the scheduler"):
        run(requests, outputs, Broken())


def test_what_no_engine_could_do_is_ignored_with_a_warning(caplog):
    class Wrong(Scheduler):
        def decide(self, view):
            waiting = [request.request_id for request in view.queue]
            return Action(
                admit=[*waiting, 7],
                preempt=[8],
                hold={9},
                reject=[10],
                prefill={11: 1} | {i: 99 for i in waiting},
                regroup={12: 1},
            )

    requests, outputs = requests_of([(0.0, 10, 1)])
    outcome = run(requests, outputs, Wrong())
    assert outcome.completed_ids.tolist() == [0]
    for part in ("admit request 7", "preempt request 8", "hold request 9", "reject request 10"):
        assert f"cannot {part}" in caplog.text
    for part in ("prefill request 11", "regroup request 12"):
        assert f"cannot {part}" in caplog.text


def test_a_request_that_has_prefilled_all_may_be_listed_among_the_prefills(caplog):
    class ListsAll(Greedy):
        def decide(self, view):
            action = super().decide(view)
            return action._replace(prefill=dict.fromkeys([r.request_id for r in view.running] + action.admit, 99))

    requests, outputs = requests_of([(0.0, 10, 5), (0.1, 10, 5)])
    assert len(run(requests, outputs, ListsAll()).completed_ids) == 2
    assert not caplog.records


def test_batches_above_the_time_table_are_warned_about_once_a_process(caplog):
    warn_of_extrapolation.cache_clear()
    requests, outputs = requests_of([(0.0, 9000, 1), (0.0, 9000, 1)])
    for _ in range(2):
        run(requests, outputs, WholePrompts(), tight(7424, max_num_batched_tokens=4096))
    assert len([record for record in caplog.records if "extrapolated" in record.message]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"limits": replica_limits(100, max_num_seqs=64, max_num_batched_tokens=32)}, "at least max_num_seqs"),
        ({"limits": replace(replica_limits(100), max_kv_tokens=1601)}, "whole blocks"),
        ({"preemption": "drop"}, "'drop', must be"),
    ],
)
def test_impossible_configurations_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(ROOMY, **change)


def test_a_request_without_output_is_refused():
    requests, _ = requests_of([(0.0, 10, 1)])
    with pytest.raises(ValueError, match="at least one token"):
        run(requests, [0], Fcfs())


def test_two_requests_of_one_id_are_refused():
    requests, outputs = requests_of([(0.0, 10, 5), (0.01, 10, 5)])
    with pytest.raises(ValueError, match=r"request 0 arrives at .* while another"):
        run([requests[0], requests[1]._replace(request_id=0)], outputs, Fcfs())

"""The tiers study on the serving engine: nothing is lost whatever moves, and tiers do only what they say."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servestudy.engine.iteration import ReplicaConfig, run
from servestudy.engine.replica_config import replica_limits
from servestudy.engine.time_model import time_model
from servestudy.errors import UserError
from servestudy.tiers.lengths import FixedLengths, ZipfLengths
from servestudy.tiers.live_migration import LiveMoves
from servestudy.tiers.outcome import Outcome, simulate
from servestudy.tiers.serving_outcome import check_cluster, columns
from servestudy.tiers.serving_replica import arrivals
from servestudy.tiers.serving_schedulers import TierScheduler
from servestudy.tiers.serving_systems import ServingAssembly, assemble_serving
from servestudy.tiers.settings import SERVING, migration_rules, with_settings
from servestudy.tiers.workload import Requests, Workload, draw

MODEL = time_model("llama_2_7b_a100").with_arithmetic_attention()
TIGHT = replace(SERVING, total_blocks=48, max_num_seqs=8)


def drawn(count: int, rate: float, tiers: int, seed: int, mix: str = "uniform") -> Requests:
    return draw(Workload(ZipfLengths(), rate, count), mix, tiers, seed, "separate")


def same_times(one: Outcome, other: Outcome) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("first_scheduled_s", "first_token_s", "completion_s", "restarts", "migrations")
    )


class RandomMoves(LiveMoves):
    """Moves any request to any replica, and lets replicas drain and come back, as a seed says."""

    def __init__(self, *args, dice: random.Random) -> None:
        super().__init__(*args)
        self.dice = dice

    def tick(self, now_s: float) -> None:
        dice = self.dice
        for _ in range(dice.randrange(4)):
            source, there = dice.choice(self.replicas), dice.choice(self.replicas)
            running = [found for found in source.decoding() if found[0] not in source.moving]
            waiting = list(source.waiting())
            if source is there:
                source.draining = dice.random() < 0.3
            elif running and dice.random() < 0.7:
                request_id, _, kv_tokens = dice.choice(running)
                self.start_move(request_id, kv_tokens, source, there)
            elif waiting:
                self.move_waiting(dice.choice(waiting)[0], source, there)


class Watch:
    """Checks the cluster at every arrival and every 7 ms; tokens must not go backwards."""

    def __init__(self, parts: ServingAssembly) -> None:
        self.parts, self.made, self.checks = parts, {}, 0
        self._choose = parts.cluster._choose
        parts.cluster._choose = self.choose
        parts.cluster.every(0.007, self.look)

    def choose(self, request):
        replica = self._choose(request)
        self.parts.cluster.arrived -= 1  # the request that is being placed
        self.look(0.0)
        self.parts.cluster.arrived += 1
        return replica

    def look(self, _: float) -> None:
        check_cluster(self.parts)
        self.checks += 1
        for replica in self.parts.replicas:
            batch = replica.engine.batch
            for request_id in batch.progress:
                tokens = batch.tokens_made(request_id)
                assert tokens >= self.made.get(request_id, 0)
                self.made[request_id] = tokens


def random_run(seed: int, count: int, replicas: int, kv_blocks: int, bytes_per_s: float, downtime_s: float) -> None:
    rules = replace(SERVING, replicas=replicas, total_blocks=kv_blocks, max_num_seqs=6)
    requests = drawn(count, 60.0 * replicas, 3, seed)
    parts = assemble_serving("ours", "freeness", replace(rules, migration="off"), 3, MODEL, 512)
    costs = replace(migration_rules(rules), bytes_per_s=bytes_per_s, downtime_s=downtime_s)
    moves = RandomMoves(
        parts.replicas, costs, parts.cluster.later, parts.cluster.wake, MODEL.kv_token_bytes, dice=random.Random(seed)
    )
    parts = replace(parts, rebalancer=moves)
    parts.cluster.every(0.01, moves.tick)
    watch = Watch(parts)
    parts.cluster.run(arrivals(requests, sees_tiers=True))
    check_cluster(parts)
    found = columns(parts, requests)
    assert watch.checks > count
    assert not np.isnan(found["completion_s"]).any(), "every request completes"
    assert (requests.arrival_s <= found["first_scheduled_s"]).all()
    assert (found["first_scheduled_s"] <= found["first_token_s"]).all()
    assert (found["first_token_s"] <= found["completion_s"]).all()
    assert moves.started == moves.aborted + moves.moved_running
    assert not moves.in_transit
    assert not any(replica.moving or replica.reserved_blocks or replica.has_work() for replica in parts.replicas)
    assert all(replica.used_blocks == 0 for replica in parts.replicas)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(1, 60),
    replicas=st.integers(2, 4),
    kv_blocks=st.integers(40, 90),
    bytes_per_s=st.sampled_from([0.0, 1e9, 12.5e9]),
    downtime_s=st.sampled_from([0.0, 0.005, 0.025]),
)
def test_nothing_is_lost_or_doubled_whatever_moves_and_drains(
    seed, count, replicas, kv_blocks, bytes_per_s, downtime_s
):
    random_run(seed, count, replicas, kv_blocks, bytes_per_s, downtime_s)


def test_random_moves_do_move_abort_and_preempt():
    """The property above would be empty if nothing happened."""
    rules = replace(SERVING, replicas=3, total_blocks=48, max_num_seqs=6)
    requests = drawn(80, 200.0, 3, seed=5)
    parts = assemble_serving("ours", "freeness", replace(rules, migration="off"), 3, MODEL, 512)
    costs = replace(migration_rules(rules), bytes_per_s=1e9)
    moves = RandomMoves(
        parts.replicas, costs, parts.cluster.later, parts.cluster.wake, MODEL.kv_token_bytes, dice=random.Random(5)
    )
    parts.cluster.every(0.01, moves.tick)
    parts.cluster.run(arrivals(requests, sees_tiers=True))
    assert moves.moved_running > 20
    assert moves.aborted > 5
    assert moves.moved_queued > 20
    assert columns(replace(parts, rebalancer=moves), requests)["restarts"].sum() > 5


@pytest.mark.parametrize(("system", "after_s"), [("ours", 1.0), ("llumnix24", 3.0)])
def test_a_draining_replica_empties_and_gets_nothing_new(system, after_s):
    """Llumnix moves none of high priority, and here nothing at all: each instance has such a request, and so is full
    beyond 1,600 tokens and no destination.
    """
    requests = drawn(700, 150.0, 3, seed=1)
    dispatch = "freeness" if system == "ours" else "osdi"
    parts = assemble_serving(system, dispatch, replace(SERVING, replicas=3), 3, MODEL, 512)
    drained = parts.replicas[1]
    seen = []

    def drain() -> None:
        assert drained.has_work()
        drained.draining = True

    parts.cluster.later(0.5, drain)
    parts.cluster.later(0.5 + after_s, lambda: seen.append((drained.has_work(), drained.used_blocks)))
    parts.cluster.run(arrivals(requests, sees_tiers=True))
    assert seen == [(False, 0)]
    assert (parts.rebalancer.moved_running > 0) == (system == "ours")
    check_cluster(parts)


def test_one_tier_without_headroom_is_the_system_without_tiers_to_the_bit():
    requests = drawn(400, 300.0, 1, seed=3)
    rules = with_settings(TIGHT, ["headroom=zero"])
    ours, parts = simulate("ours", requests, 1, rules)
    plain, _ = simulate("ours_one_tier", requests, 1, rules)
    assert same_times(ours, plain)
    assert parts.rebalancer.started > 0
    many, _ = simulate("ours", replace(requests, tier=np.arange(400) % 4), 4, rules)
    assert not same_times(many, plain), "with tiers it is another system"


def test_tier_labels_do_nothing_without_headroom_and_order():
    requests = drawn(400, 300.0, 4, seed=4)
    rules = with_settings(TIGHT, ["headroom=zero", "queue_order=fifo"])
    plain, parts = simulate("ours", requests, 4, rules)
    # Who migrates goes by tier too: with moves on the labels matter, which is the only rule left that sees them.
    off = with_settings(rules, ["migration=off"])
    runs = [
        simulate("ours", replace(requests, tier=np.array(order)[requests.tier]), 4, off)[0]
        for order in ([0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 0])
    ]
    assert same_times(runs[0], runs[1])
    assert same_times(runs[0], runs[2])
    assert parts.rebalancer.started > 0
    assert not same_times(plain, runs[0])


@pytest.mark.parametrize("system", ["infaas_vllm", "round_robin_orca", "round_robin_sarathi", "llumnix24", "ours"])
def test_one_request_takes_the_time_models_closed_form(system):
    requests = draw(Workload(FixedLengths(300, 40), 1.0, 1), "uniform", 4, 1, "separate")
    outcome, _ = simulate(system, requests, 4, with_settings(SERVING, ["migration=off"]))
    decodes = sum(MODEL.iteration_s(1, 1, 300 + made - 1) for made in range(1, 40))
    first = MODEL.iteration_s(300, 0, 0, 300 * 300)
    assert outcome.first_token_s[0] - outcome.arrival_s[0] == pytest.approx(first, rel=1e-9)
    assert outcome.completion_s[0] - outcome.arrival_s[0] == pytest.approx(first + decodes, rel=1e-9)


def test_the_studys_gap_rule_moves_a_lone_request_on_and_on():
    """An idle replica is always freer by more than 0.3, so that each tick moves the only request, at a pause each."""
    requests = draw(Workload(FixedLengths(300, 40), 1.0, 1), "uniform", 4, 1, "separate")
    moved, parts = simulate("ours", requests, 4, SERVING)
    still, _ = simulate("ours", requests, 4, with_settings(SERVING, ["migration=off"]))
    assert parts.rebalancer.moved_running > 5
    assert moved.completion_s[0] - moved.arrival_s[0] > 1.3 * (still.completion_s[0] - still.arrival_s[0])


def test_a_replica_in_the_cluster_completes_as_the_engine_alone_does_to_the_bit():
    requests = drawn(300, 90.0, 1, seed=7)
    rules = replace(TIGHT, replicas=1)
    outcome, _ = simulate("ours_one_tier", requests, 1, rules)
    made = arrivals(requests, sees_tiers=False)
    config = ReplicaConfig(replica_limits(48, 8, rules.max_batch_tokens), MODEL)
    alone = run([a.request for a in made], [a.output_tokens for a in made], TierScheduler(), config)
    completion_s = np.empty(len(made))
    completion_s[alone.completed_ids] = alone.completion_s
    assert np.array_equal(completion_s, outcome.completion_s)
    assert alone.preemptions.sum() == outcome.restarts.sum() > 0


def test_tiers_put_the_first_before_the_last_and_aging_brings_the_last_forward():
    requests = drawn(600, 2000.0, 4, seed=2)
    waits = {}
    for aging in ("inf", "0.05"):
        outcome, _ = simulate("ours", requests, 4, with_settings(SERVING, [f"aging_s={aging}", "migration=off"]))
        ttft = outcome.first_token_s - outcome.arrival_s
        waits[aging] = [ttft[outcome.tier == tier].mean() for tier in (0, 3)]
    assert waits["inf"][0] < 0.5 * waits["inf"][1]
    assert waits["0.05"][1] < waits["inf"][1]
    assert waits["0.05"][0] > waits["inf"][0]


def test_moves_cost_what_the_rules_say():
    requests = drawn(500, 280.0, 2, seed=9)
    costed, parts = simulate("ours", requests, 2, SERVING)
    free, _ = simulate("ours", requests, 2, with_settings(SERVING, ["migration=free"]))
    moved = costed.migrations > 0
    assert moved.sum() > 10
    assert parts.rebalancer.pause_s == pytest.approx(0.025 * parts.rebalancer.moved_running)
    assert not same_times(costed, free)


def test_a_request_beyond_the_memory_is_turned_away_and_counted():
    requests = drawn(50, 50.0, 2, seed=1)
    requests.prompt_tokens[7] = 48 * 16
    outcome, _ = simulate("ours", requests, 2, TIGHT)
    assert np.flatnonzero(~outcome.completed).tolist() == [7]


@pytest.mark.parametrize(
    ("system", "rules", "message"),
    [
        ("infaaspp_vllm", [], "does not run on the serving engine; allowed: infaas_vllm"),
        ("ours", ["dispatch=infaaspp"], "allowed on the serving engine: round_robin"),
        ("ours", ["queue_order=decodes_first"], "allowed on the serving engine: tier, fifo"),
    ],
)
def test_what_the_serving_engine_does_not_have_is_told(system, rules, message):
    with pytest.raises(UserError, match=message):
        simulate(system, drawn(3, 1.0, 2, 1), 2, with_settings(SERVING, rules))


def test_honest_rules_are_no_switches_and_rules_of_the_engine_need_it():
    with pytest.raises(UserError, match="decodes_hold_kv is False; the serving engine allows only True"):
        with_settings(SERVING, ["decodes_hold_kv=false"])
    with pytest.raises(UserError, match="add engine=serving"):
        with_settings(SERVING, ["engine=study", "aging_s=5"])
    with pytest.raises(UserError, match="runs on the serving engine only"):
        simulate("llumnix24", drawn(3, 1.0, 2, 1), 2, with_settings(SERVING, ["engine=study"]))

"""Migration and autoscaling of the multi-tier scheduler."""

import pytest

from servestudy.engine.time_model import time_model
from servestudy.errors import UserError
from servestudy.tiers.autoscaling import Autoscaler, AutoscalingRules
from servestudy.tiers.freeness import headroom_blocks
from servestudy.tiers.llumlet import HoldingLlumletReplica, LlumletReplica
from servestudy.tiers.migration import MigrationRules, Rebalancer
from servestudy.tiers.replica import ReplicaConfig
from servestudy.tiers.request import TierRequest

A100 = time_model("llama_2_7b_a100")


def request(number: int = 0, tier: int = 0, prompt: int = 64, output: int = 32) -> TierRequest:
    return TierRequest(number, 0.0, prompt, output, tier)


def cluster_of(kind=LlumletReplica, count: int = 2, tiers: int = 3, **rules) -> tuple[list[LlumletReplica], Rebalancer]:
    replicas = [kind(index, ReplicaConfig(A100, tiers=tiers, batch_cap=False)) for index in range(count)]
    rebalancer = Rebalancer(
        replicas, headroom_blocks(tiers, 128), MigrationRules(**rules), lambda delay_s, act: act(), lambda replica: None
    )
    return replicas, rebalancer


def test_the_lowest_tier_with_the_fewest_blocks_moves():
    (source, there), rebalancer = cluster_of()
    for number, (tier, prompt) in enumerate([(0, 64), (2, 400), (2, 300), (2, 300), (1, 64)]):
        source.enqueue(request(number, tier, prompt))
    rebalancer.tick(0.05)
    assert [list(level) for level in there.levels if level] == [[source_request] for source_request in there.levels[2]]
    assert [moved.id for moved in there.levels[2]] == [2]
    assert (source.requests_of_tier, there.requests_of_tier) == ([1, 1, 2], [0, 0, 1])
    assert rebalancer.moved_queued == 1


def test_nothing_moves_below_the_gap():
    (source, _), rebalancer = cluster_of(least_gap=200.0)
    source.enqueue(request())
    rebalancer.tick(0.05)
    assert rebalancer.moved_queued == 0


def test_the_described_trigger_needs_negative_freeness():
    (source, _), rebalancer = cluster_of(trigger="negative")
    source.enqueue(request())
    rebalancer.tick(0.05)
    assert rebalancer.moved_queued == 0
    source.enqueue(request(1, prompt=128 * 16))
    source.levels[0].rotate(1)
    source.used_blocks = 10
    rebalancer.tick(0.1)
    assert rebalancer.moved_queued == 1


def test_a_running_decode_moves_after_one_more_iteration_and_wins_ties_with_queued_ones():
    (source, there), rebalancer = cluster_of()
    first, second = request(0), request(1)
    source.enqueue(first)
    source.advance(0.0)
    source.advance(0.1)  # prefill done; `first` decodes
    second.processed = 65
    source.enqueue(second)  # a decode in the queue: no blocks either
    rebalancer.tick(0.15)
    assert first.migration is not None
    assert there.reserved_blocks == 0
    source.advance(0.2)
    assert first.migration is None
    assert list(there.levels[0]) == [first]
    assert list(there.running()) == [first]
    assert (source.requests_of_tier[0], there.requests_of_tier[0]) == (1, 1)
    assert there.batch_size() == 1  # it has an entry before it runs there
    there.advance(0.2)
    assert list(there.running()) == [first]


def test_a_prefill_on_the_move_reserves_its_blocks_and_takes_a_stage_each_iteration():
    (source, there), rebalancer = cluster_of()
    mover = request(prompt=48)  # three blocks
    source.enqueue(mover)
    source.advance(0.0)
    rebalancer.tick(0.05)
    assert there.reserved_blocks == 3
    for now_s in (0.1, 0.2):
        source.advance(now_s)
        assert mover.migration is not None
    source.advance(0.3)
    assert (there.reserved_blocks, there.used_blocks, mover.blocks) == (0, 3, 3)
    there.advance(0.3)
    there.advance(0.4)
    assert (there.used_blocks, mover.blocks) == (0, 0)


def test_a_move_is_given_up_when_the_request_completes_first():
    (source, there), rebalancer = cluster_of()
    mover = request(prompt=48, output=2)
    source.enqueue(mover)
    source.advance(0.0)
    rebalancer.tick(0.05)
    source.advance(0.1)
    source.advance(0.2)
    assert mover.completion_s == 0.2
    assert (rebalancer.started, rebalancer.aborted, there.reserved_blocks) == (1, 1, 0)


def test_a_candidate_that_is_already_moving_ends_the_attempt():
    (source, _), rebalancer = cluster_of()
    source.enqueue(request(prompt=48))
    source.advance(0.0)
    rebalancer.tick(0.05)
    rebalancer.tick(0.15)
    assert rebalancer.started == 1


def test_a_draining_source_is_emptied_of_its_queue():
    (source, there), rebalancer = cluster_of()
    for number in range(5):
        source.enqueue(request(number))
    source.draining = True
    rebalancer.tick(0.05)
    assert not source.has_work()
    assert there.requests_of_tier[0] == 5


def test_a_tick_that_comes_early_by_a_rounding_error_is_skipped_unless_switched_off():
    acted = {}
    for float_skip in (True, False):
        _, rebalancer = cluster_of(float_skip=float_skip, least_gap=0.0)
        now_s, acted[float_skip] = 0.0, 0
        for _ in range(1200):
            now_s += 0.05
            before = rebalancer.last_s
            rebalancer.tick(now_s)
            acted[float_skip] += rebalancer.last_s != before
    assert acted[False] == 1200
    assert acted[True] / 1200 == pytest.approx(0.71, abs=0.005)


def test_a_held_decode_moves_with_its_blocks():
    (source, there), rebalancer = cluster_of(HoldingLlumletReplica)
    mover = request(prompt=64, output=40)
    source.enqueue(mover)
    source.advance(0.0)
    source.advance(0.1)
    rebalancer.tick(0.15)
    for step in range(5):
        source.advance(0.2 + step)
    assert not source.has_work()
    assert (source.used_blocks, there.used_blocks, mover.blocks) == (0, 5, 5)
    assert there.paused == [mover]


def autoscaled(count: int = 3, **rules) -> tuple[list[LlumletReplica], Autoscaler]:
    replicas, _ = cluster_of(count=count)
    return replicas, Autoscaler(replicas, AutoscalingRules(**rules))


def test_an_idle_cluster_drains_a_replica_after_the_warm_up_and_takes_it_back_at_the_next_check():
    replicas, scaler = autoscaled()
    history = []
    for second in range(1, 20):
        scaler.tick(float(second))
        history.append([replica.draining for replica in replicas].count(True))
    assert history[:5] == [0] * 5  # warm-up from the first check at 1 s
    assert history[5:7] == [1, 0]  # drained at 6 s, its -1152 brings it back at 7 s
    assert history[15:17] == [1, 0]  # both cooldowns are 10 s, so this goes on for ever
    assert scaler.scale_ins == 2


def test_mended_autoscaling_does_not_flap_and_keeps_one_replica():
    replicas, scaler = autoscaled(mended=True)
    for second in range(1, 100):
        scaler.tick(float(second))
    assert [replica.draining for replica in replicas] == [True, True, False]
    assert scaler.scale_outs == 0


def test_the_victim_holds_the_fewest_requests():
    replicas, scaler = autoscaled()
    for number, replica in enumerate(replicas[:2]):
        replica.enqueue(request(number))
        replica.advance(0.0)
    scaler.tick(1.0)
    scaler.tick(6.0)
    assert [replica.draining for replica in replicas] == [False, False, True]


def test_bad_rules_are_told():
    with pytest.raises(UserError, match="unknown migration trigger 'always'; allowed: gap, negative"):
        MigrationRules(trigger="always")
    with pytest.raises(UserError, match="unknown queue order 'lifo'; allowed: tier, fifo, decodes_first"):
        LlumletReplica(0, ReplicaConfig(A100, queue_order="lifo"))

"""Rules of the multi-tier scheduler: headroom, freeness, dispatch."""

import math
from dataclasses import dataclass, field

import pytest

from servestudy.errors import UserError
from servestudy.tiers.dispatch import Freest, Infaas, LeastOutstanding, OsdiLoad, RoundRobin
from servestudy.tiers.freeness import freeness, headroom_blocks, osdi_load
from servestudy.tiers.request import TierRequest

HEADROOM_OF_128 = {
    1: [0],
    2: [25, 2],
    3: [25, 7, 2],
    4: [25, 11, 4, 2],
    5: [25, 13, 7, 3, 2],
    6: [25, 15, 9, 5, 3, 2],
    7: [25, 16, 11, 7, 4, 3, 2],
    8: [25, 17, 12, 8, 6, 4, 3, 2],
    9: [25, 18, 13, 10, 7, 5, 3, 2, 2],
    10: [25, 19, 14, 11, 8, 6, 4, 3, 2, 2],
}


@dataclass
class Seen:
    """A replica as rules see it."""

    index: int = 0
    draining: bool = False
    total_blocks: int = 128
    watermark_blocks: int = 1
    block_tokens: int = 16
    used_blocks: int = 0
    reserved_blocks: int = 0
    requests_of_tier: list[int] = field(default_factory=lambda: [0, 0])
    head: int = 0
    waiting_prompt_blocks: float = 0.0
    in_flight: int = 0
    waiting: int = 0
    depth: int = 0
    latencies: list[float] = field(default_factory=list)

    def head_of_line_blocks(self) -> int:
        return self.head

    def waiting_blocks(self) -> float:
        return self.waiting_prompt_blocks

    def batch_size(self) -> int:
        return self.in_flight

    def waiting_requests(self) -> int:
        return self.waiting

    def running_requests(self) -> int:
        return self.in_flight

    def outstanding(self) -> int:
        return self.depth

    def served_s(self, first: int) -> list[float]:
        return self.latencies[first:]

    def next_iteration_alone_s(self, request) -> float:
        return 0.04


def request(number: int = 0, tier: int = 0, prompt: int = 64, output: int = 32) -> TierRequest:
    return TierRequest(number, 0.0, prompt, output, tier)


@pytest.mark.parametrize("tiers", HEADROOM_OF_128)
def test_headroom_is_the_studys_table(tiers):
    assert headroom_blocks(tiers, 128) == HEADROOM_OF_128[tiers]


def test_headroom_modes():
    assert headroom_blocks(5, 128, "linear") == [25, 19, 12, 6, 0]
    assert headroom_blocks(5, 128, "zero") == [0] * 5
    assert headroom_blocks(2, 100, whole_blocks=False) == pytest.approx([20.0, 20 * math.exp(-2.5)])
    assert headroom_blocks(2, 128, share=0.30) == [38, 3]
    with pytest.raises(UserError, match="unknown headroom mode 'none'; allowed: exponential, linear, zero"):
        headroom_blocks(2, 128, "none")


def test_freeness_counts_each_present_tier_once_and_only_the_head_of_the_queue():
    replica = Seen(used_blocks=20, head=5, requests_of_tier=[7, 0], in_flight=4, waiting=50)
    assert freeness(replica, [25, 2]) == (128 - 20 - 5 - 25) / 4
    assert freeness(replica, None) == (128 - 20 - 5) / 4
    replica.draining = True
    assert freeness(replica, None) == (128 - 20 - 5 - 1280) / 4


def test_an_idle_replica_divides_by_one():
    assert freeness(Seen(), [25, 2]) == 128


def test_osdi_load_counts_all_waiting_blocks_and_inverts_for_high_priority():
    mixed = Seen(used_blocks=27, waiting_prompt_blocks=30.5, requests_of_tier=[1, 3], in_flight=3, waiting=1)
    normal = Seen(used_blocks=27, waiting_prompt_blocks=30.5, requests_of_tier=[0, 4], in_flight=3, waiting=1)
    plain, deducted = -(100 - 30.5) / 4, -(100 - 30.5 - (128 - 100)) / 4
    assert osdi_load(mixed) == osdi_load(normal) == plain
    assert osdi_load(mixed, high_priority=False, priorities=True) == deducted
    assert osdi_load(mixed, high_priority=True, priorities=True) == plain
    assert osdi_load(normal, high_priority=True, priorities=True) == deducted
    assert osdi_load(Seen()) == -math.inf


def test_dispatchers_take_the_lowest_index_among_equals_and_leave_draining_replicas_out():
    replicas = [Seen(index=0, draining=True), Seen(index=1), Seen(index=2)]
    for dispatcher in (Freest(replicas, [25, 2]), LeastOutstanding(replicas), OsdiLoad(replicas)):
        assert dispatcher.choose(request()).index == 1
    in_turn = RoundRobin(replicas)
    assert [in_turn.choose(request()).index for _ in range(4)] == [1, 2, 1, 2]
    for replica in replicas:
        replica.draining = True
    assert LeastOutstanding(replicas).choose(request()).index == 0


def test_least_outstanding_counts_queued_requests_only():
    replicas = [Seen(index=0, waiting=2), Seen(index=1, waiting=1, in_flight=60)]
    assert LeastOutstanding(replicas).choose(request()).index == 1


def test_infaas_takes_the_shallowest_healthy_replica():
    replicas = [Seen(index=0, depth=3), Seen(index=1, depth=9)]
    infaas = Infaas(replicas, tiers=4)
    assert infaas.choose(request()).index == 0
    replicas[0].latencies.append(1.4)  # above 1.3 s with three outstanding: overloaded
    assert infaas.choose(request()).index == 1
    replicas[1].latencies.append(2.0)  # all overloaded: cost decides again
    assert infaas.choose(request()).index == 0


def test_infaas_recovers_after_three_calls_if_the_depth_allows():
    replicas = [Seen(index=0, depth=3), Seen(index=1, depth=9)]
    infaas = Infaas(replicas, tiers=1)
    replicas[0].latencies.append(1.4)
    chosen = [infaas.choose(request()).index]
    replicas[0].depth = 2
    chosen += [infaas.choose(request()).index for _ in range(3)]
    assert chosen == [1, 1, 1, 0]


def test_infaas_mean_weighs_the_newest_latency_with_six_tenths():
    (replica,) = replicas = [Seen(depth=1)]
    infaas = Infaas(replicas, tiers=1)
    replica.latencies += [1.0, 2.0]
    infaas.choose(request())
    assert infaas.health[0].mean_ms == pytest.approx(0.6 * 2000 + 0.4 * 1000)

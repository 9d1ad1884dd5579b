"""Replica schedulers of the published variant, and whole runs: closed forms, conservation, what the switches change."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servestudy.engine.time_model import time_model
from servestudy.errors import UserError
from servestudy.tiers.lengths import FixedLengths, ZipfLengths
from servestudy.tiers.outcome import Outcome, simulate
from servestudy.tiers.settings import Rules, with_settings
from servestudy.tiers.systems import SYSTEMS as ALL_SYSTEMS
from servestudy.tiers.workload import Requests, Workload, draw

SYSTEMS = {name: entry for name, entry in ALL_SYSTEMS.items() if not entry.serving_only}

A100 = time_model("llama_2_7b_a100")
BURST = Workload(ZipfLengths(), requests_per_s=1250.0, requests=300)
RULES = Rules()
COLUMNS = ("first_scheduled_s", "first_token_s", "completion_s", "restarts", "migrations", "busy_s")


def requests(rows: list[tuple[float, int, int, int]]) -> Requests:
    """From rows of arrival, prompt, output, tier."""
    return Requests(*(np.array(values) for values in zip(*rows, strict=True)))


def run(system: str, these: Requests, tiers: int = 1, *changes: str) -> Outcome:
    return simulate(system, these, tiers, with_settings(RULES, changes))[0]


def same(first: Outcome, second: Outcome) -> bool:
    return all(np.array_equal(getattr(first, name), getattr(second, name), equal_nan=True) for name in COLUMNS)


def decode_s(tokens: int) -> float:
    return A100.iteration_s(1, 1, tokens)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("held", ["true", "false"])
def test_a_lone_request_takes_the_closed_form(system, held):
    outcome = run(system, requests([(0.5, 100, 20, 0)]), 1, f"decodes_hold_kv={held}", "migration=off")
    prefill_s = A100.iteration_s(100, 0, 0, 100 * 100)
    assert outcome.first_token_s[0] == pytest.approx(0.5 + prefill_s, rel=1e-12)
    after = sum(decode_s(100 + made) for made in range(19))
    assert outcome.completion_s[0] == pytest.approx(0.5 + prefill_s + after, rel=1e-12)
    assert outcome.busy_s[0] == pytest.approx(outcome.completion_s[0] - 0.5, rel=1e-12)


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_output_token_completes_with_the_prefill(system):
    outcome = run(system, requests([(0.0, 64, 1, 0)]))
    assert outcome.completion_s[0] == outcome.first_token_s[0] > 0


def test_vllm_prefills_first_and_in_one_batch():
    outcome = run(
        "round_robin_vllm", requests([(0.0, 64, 3, 0), (0.001, 64, 3, 0), (0.001, 64, 3, 0)]), 1, "replicas=1"
    )
    first, both = A100.iteration_s(64, 0, 0, 64**2), A100.iteration_s(128, 0, 0, 2 * 64**2)
    assert outcome.first_token_s == pytest.approx([first, first + both, first + both])
    decodes = A100.iteration_s(3, 3, 3 * 64) + A100.iteration_s(3, 3, 3 * 65)
    assert outcome.completion_s == pytest.approx([first + both + decodes] * 3)


def test_ours_mixes_prefills_and_decodes_in_one_iteration():
    outcome = run("ours", requests([(0.0, 64, 2, 0), (0.001, 80, 2, 0)]), 1, "replicas=1")
    first = A100.iteration_s(64, 0, 0, 64**2)
    mixed = A100.iteration_s(81, 1, 64, 80**2)
    assert outcome.first_token_s == pytest.approx([first, first + mixed])
    assert outcome.completion_s[0] == pytest.approx(first + mixed)


def test_sarathi_cuts_a_prompt_into_chunks_and_pays_the_same_attention():
    outcome = run("round_robin_sarathi", requests([(0.0, 1200, 1, 0)]))
    linear = sum(A100.iteration_s(tokens, 0, 0) for tokens in (512, 512, 176))
    assert outcome.first_token_s[0] == pytest.approx(linear + A100.prefill_512_s * (1200 / 512) ** 2)


def test_vllm_restarts_the_latest_arrival_and_keeps_its_first_token_time():
    """Two requests of 56 blocks of KV at their end share 100 blocks, so one of them has to go and come back."""
    these = requests([(0.0, 600, 300, 0), (0.1, 600, 300, 0)])
    outcome = run("round_robin_vllm", these, 1, "replicas=1", "total_blocks=100")
    assert outcome.restarts.tolist() == [0, 1]
    assert outcome.completion_s[0] < outcome.completion_s[1]
    alone = run("round_robin_vllm", these, 1, "replicas=1", "total_blocks=200")
    assert outcome.first_token_s.tolist() == alone.first_token_s.tolist()
    assert outcome.final_decode_tokens[1] < 300


def test_orca_runs_as_many_requests_as_reservations_fit():
    these = requests([(0.0, 64, 8, 0)] * 9)
    outcome = run("round_robin_orca", these, 1, "replicas=1")  # 128 blocks, 32 a request
    assert [len(np.flatnonzero(outcome.first_token_s == time)) for time in np.unique(outcome.first_token_s)] == [
        4,
        4,
        1,
    ]


def test_published_decodes_hold_nothing_so_memory_limits_only_prompts():
    these = requests([(0.0, 320, 60, 0)] * 40)  # 20 blocks each: six prompts an iteration
    free = run("ours", these, 1, "replicas=1", "migration=off")
    assert not free.restarts.any()
    assert len(np.unique(free.first_token_s)) == 7
    held = run("ours", these, 1, "replicas=1", "migration=off", "decodes_hold_kv=true")
    assert held.completed.all()
    assert held.restarts.any()
    assert held.completion_s.max() > 2 * free.completion_s.max()


def test_the_cap_on_sequences_limits_ours_only_if_switched_on():
    these = requests([(0.0, 16, 10, 0)] * 100)
    uncapped = run("ours", these, 1, "replicas=1")
    capped = run("ours", these, 1, "replicas=1", "batch_cap=true")
    assert len(np.unique(uncapped.first_token_s)) == 1
    assert len(np.unique(capped.first_token_s)) > 1


def test_decode_attention_of_large_batches_is_priced_as_of_32_unless_switched_off():
    these = requests([(0.0, 16, 3, 0)] * 100)
    clamped = run("ours", these, 1, "replicas=1")
    exact = run("ours", these, 1, "replicas=1", "attention_clamp_seqs=none")
    gap_s = exact.completion_s[0] - clamped.completion_s[0]
    assert gap_s == pytest.approx(A100.kv_token_s * (100 - 32) * (16 + 17))


def test_tier_order_serves_important_requests_first_and_fifo_does_not():
    these = requests([(0.0, 320, 5, number % 2) for number in range(60)])
    for order, is_ordered in (("tier", True), ("fifo", False)):
        outcome = run("ours", these, 2, "replicas=1", f"queue_order={order}")
        last_high, first_low = outcome.first_token_s[::2].max(), outcome.first_token_s[1::2].min()
        assert (last_high <= first_low) == is_ordered


def test_decodes_first_makes_tokens_earlier():
    these = requests([(0.0, 320, 5, 0) for _ in range(60)])
    late, early = (run("ours", these, 1, "replicas=1", f"queue_order={order}") for order in ("tier", "decodes_first"))
    tbt = [(outcome.completion_s - outcome.first_token_s).mean() for outcome in (late, early)]
    assert tbt[1] < 0.7 * tbt[0]


@pytest.mark.parametrize("held", ["true", "false"])
def test_one_tier_without_headroom_equals_the_same_system_that_sees_no_tiers(held):
    four = draw(BURST, "uniform", 4, seed=1)
    one = replace(four, tier=np.zeros_like(four.tier))
    change = f"decodes_hold_kv={held}"
    assert same(run("ours", one, 1, change), run("ours_one_tier", four, 4, change))


@pytest.mark.parametrize("held", ["true", "false"])
def test_tier_labels_mean_nothing_without_headroom_order_and_migration(held):
    these = draw(BURST, "uniform", 4, seed=1)
    permuted = replace(these, tier=(these.tier + 1) % 4)
    changes = ("headroom=zero", "queue_order=fifo", "migration=off", f"decodes_hold_kv={held}")
    assert same(run("ours", these, 4, *changes), run("ours", permuted, 4, *changes))
    assert not same(run("ours", these, 4, *changes[1:]), run("ours", permuted, 4, *changes[1:]))


@pytest.mark.parametrize("system", [name for name, entry in SYSTEMS.items() if entry.blind])
def test_blind_systems_ignore_tiers(system):
    these = draw(BURST, "uniform", 4, seed=1)
    assert same(run(system, these, 4), run(system, replace(these, tier=3 - these.tier), 4))


def test_a_run_twice_gives_the_same_bits():
    these = draw(BURST, "enterprise_v2", 5, seed=3)
    for system in SYSTEMS:
        assert same(run(system, these, 5), run(system, these, 5))


def test_moves_without_a_wake_up_can_strand_requests_and_wake_ups_cannot():
    """One request on an empty cluster: it moves to an idle replica, where nothing starts it."""
    alone = requests([(0.0, 100, 200, 0)])
    asleep = run("ours", alone, 1, "decodes_hold_kv=true", "time_limit_s=inf")
    awake = run("ours", alone, 1, "decodes_hold_kv=true", "time_limit_s=inf", "wake_destination=true")
    assert asleep.migrations[0] == 1
    assert not asleep.completed.any()
    assert awake.completed.all()
    assert awake.migrations[0] > 1


def test_the_time_limit_censors_and_no_limit_does_not():
    these = draw(BURST, "uniform", 2, seed=1)
    cut, whole = (run("infaas_vllm", these, 2, f"time_limit_s={limit}") for limit in ("2.0", "inf"))
    assert 0 < cut.completed.sum() < whole.completed.sum() == 300
    done = cut.completed
    assert (cut.completion_s[done] == whole.completion_s[done]).all()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.floats(0, 0.3), st.integers(1, 300), st.integers(1, 60), st.integers(0, 2)),
        min_size=1,
        max_size=60,
    ),
    held=st.booleans(),
    capped=st.booleans(),
    migration=st.sampled_from(["off", "free", "costed"]),
    order=st.sampled_from(["tier", "fifo", "decodes_first"]),
    autoscaler=st.sampled_from(["published", "mended", "off"]),
    limit=st.sampled_from(["0.2", "1.0", "inf"]),
)
def test_nothing_is_lost_and_blocks_add_up_under_any_rules(rows, held, capped, migration, order, autoscaler, limit):
    """`simulate` checks conservation itself and raises; tight memory, and rebalancing every millisecond."""
    these = requests(sorted(rows))
    outcome = run(
        "ours", these, 3,
        "replicas=3", "total_blocks=40", "max_num_seqs=8", "rebalance_interval_s=0.001", "rebalance_gap=0.0",
        f"decodes_hold_kv={str(held).lower()}", f"batch_cap={str(capped).lower()}", f"migration={migration}",
        f"queue_order={order}", f"autoscaler={autoscaler}", f"time_limit_s={limit}", "wake_destination=true",
    )  # fmt: skip
    if limit == "inf":
        assert outcome.completed.all()
    assert outcome.completed.sum() <= len(rows)


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.tuples(st.floats(0, 0.3), st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=40),
    system=st.sampled_from([name for name in SYSTEMS if not name.startswith("ours")]),
)
def test_every_baseline_completes_everything_in_tight_memory(rows, system):
    these = requests([(*row, 0) for row in sorted(rows)])
    changes = ("replicas=2", "total_blocks=40", "max_sequence_tokens=400", "time_limit_s=inf")
    assert run(system, these, 1, *changes).completed.all()


def test_requests_that_can_never_run_are_told():
    long = requests([(0.0, 4000, 100, 0)])
    with pytest.raises(UserError, match=r"request 0 has 4100 tokens and needs 258 KV blocks .* a replica has 128"):
        run("ours", long)
    with pytest.raises(UserError, match="more than max_batch_tokens = 2048: vLLM without chunked prefill"):
        run("infaas_vllm", long, 1, "total_blocks=400")
    with pytest.raises(UserError, match="Orca reserves max_sequence_tokens = 512"):
        run("round_robin_orca", long, 1, "total_blocks=400")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("kv=1", "unknown name 'kv'; allowed: engine, replicas, total_blocks"),
        ("batch_cap=yes", "found 'yes'; allowed: true, false"),
        ("replicas=two", "found 'two'; allowed: a number"),
        ("replicas=0", "replicas is 0; allowed: 1 or more"),
        ("migration=on", "migration is 'on'; allowed: free, off, costed"),
        ("time_limit_s=0", "time_limit_s is 0.0; allowed: above 0"),
    ],
)
def test_bad_settings_are_told(setting, message):
    with pytest.raises(UserError, match=message.replace(".", r"\.")):
        with_settings(RULES, [setting])


def test_unknown_systems_and_dispatchers_are_told():
    these = requests([(0.0, 64, 2, 0)])
    with pytest.raises(UserError, match="unknown system 'llumnix'; allowed: infaas_vllm"):
        run("llumnix", these)
    with pytest.raises(UserError, match="dispatch is 'random'; allowed: round_robin"):
        run("ours", these, 1, "dispatch=random")


def test_lengths_that_all_fit_run_on_the_real_memory():
    these = draw(Workload(FixedLengths(), 10.0, 40), "round_robin", 3, seed=42)
    assert run("round_robin_orca", these, 3, "total_blocks=7424", "max_sequence_tokens=4096").completed.all()

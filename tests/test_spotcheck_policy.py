"""The two schedulers as pure functions of numbers."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servestudy.spotcheck.backends.vllm_v1 import held_decodes
from servestudy.spotcheck.policy import (
    ARMS,
    AS_PUBLISHED,
    DECODING,
    PREFILLING,
    WAITING,
    Candidate,
    Slai,
    admissible,
    compose,
    fcfs,
    slai,
)

BLOCK_TOKENS = 16


def made(states="wwpdd", tbt_s=0.0, prompts=(90, 30, 50, 10, 20)) -> list[Candidate]:
    """Candidates that arrived in this order; the decoding ones made their last token at time 1."""
    names = {"w": WAITING, "p": PREFILLING, "d": DECODING}
    return [
        Candidate(number, float(number), prompt, names[letter], 1.0, tbt_s)
        for number, (letter, prompt) in enumerate(zip(states, prompts, strict=True))
    ]


def ids(candidates) -> list[int]:
    return [candidate.request_id for candidate in candidates]


candidates = st.lists(
    st.tuples(
        st.sampled_from([WAITING, PREFILLING, DECODING]),
        st.integers(1, 500),
        st.floats(0, 10),
        st.floats(0, 2),
        st.floats(0, 5),
    ),
    max_size=30,
).map(
    lambda rows: [
        Candidate(number, arrival_s, prompt, state, last_s, tbt_s)
        for number, (state, prompt, arrival_s, tbt_s, last_s) in enumerate(rows)
    ]
)
arms = st.sampled_from(sorted(ARMS))


def test_fcfs_serves_decodes_then_started_prefills_then_the_queue_by_arrival():
    assert ids(fcfs(made()).listed()) == [3, 4, 2, 0, 1]


def test_slai_lets_decodes_wait_until_five_mean_steps_before_their_next_token_is_due():
    early, late = (slai(made(tbt_s=0.1), now_s, 0.01, 0.0) for now_s in (1.049, 1.05))
    assert (ids(early.critical), ids(early.rest)) == ([], [3, 4])
    assert (ids(late.critical), ids(late.rest)) == ([3, 4], [])
    assert ids(early.listed()) == [2, 1, 0, 3, 4]


def test_slai_looks_ten_steps_ahead_while_kv_is_nearly_full():
    kv_used = {share: slai(made(tbt_s=0.1), 1.0, 0.01, share).critical for share in (0.95, 0.96)}
    assert not kv_used[0.95]
    assert ids(kv_used[0.96]) == [3, 4]


def test_a_due_time_is_that_of_the_request_not_of_its_class():
    both = made(tbt_s=1.0)
    both[4] = both[4]._replace(tbt_s=0.2)
    order = slai(both, 1.16, 0.01, 0.0)
    assert (ids(order.critical), ids(order.rest)) == ([4], [3])


@given(candidates, st.floats(0, 5), st.floats(0.001, 0.2), st.floats(0, 1), arms)
def test_every_request_stands_in_the_order_once(requests, now_s, mean_step_s, kv_used, arm):
    order = ARMS[arm].decide(requests, now_s, mean_step_s, kv_used)
    assert sorted(ids(order.listed())) == ids(requests)


@given(candidates, st.floats(5, 9), st.floats(0.001, 0.2))
def test_with_tbt_below_five_mean_steps_slai_is_fcfs_with_the_shortest_prompt_first(requests, now_s, mean_step_s):
    requests = [c._replace(tbt_s=4.9 * mean_step_s, last_token_s=now_s) for c in requests]
    order, other = slai(requests, now_s, mean_step_s, 0.0), fcfs(requests)
    assert not order.rest
    assert set(order.critical) == set(other.critical)
    assert order.started == other.started
    assert list(order.new) == sorted(other.new, key=lambda c: (c.prompt_tokens, c.arrival_s, c.request_id))


@given(candidates, st.integers(1, 300), arms, st.floats(0, 5))
@settings(max_examples=200)
def test_a_step_uses_its_budget_up_while_anything_is_left_to_serve(requests, budget, arm, now_s):
    left = {c.request_id: c.prompt_tokens for c in requests}
    order = ARMS[arm].decide(requests, now_s, 0.01, 0.5)
    tokens = compose(order, budget, left.__getitem__)
    wanted = sum(1 if c.state == DECODING else left[c.request_id] for c in requests)
    assert sum(tokens.values()) == min(budget, wanted)
    assert all(tokens.values())


def test_admission_closes_at_the_first_prompt_that_does_not_fit_whole():
    order = fcfs(made("wwwww", prompts=(15, 31, 100, 10, 10)))
    assert ids(admissible(order, 5, 4, BLOCK_TOKENS).new) == [0, 1]
    assert ids(admissible(order, 1, 100, BLOCK_TOKENS).new) == [0]
    assert ids(admissible(order, 0, 100, BLOCK_TOKENS).new) == []


def test_a_prompt_that_fills_its_blocks_needs_one_more_for_its_first_token():
    order = fcfs(made("w", prompts=(16,)))
    assert not admissible(order, 1, 1, BLOCK_TOKENS).new
    assert ids(admissible(order, 1, 2, BLOCK_TOKENS).new) == [0]


def test_the_published_variant_serves_decodes_before_prefills_and_admits_by_class():
    requests = made("wwpdd", tbt_s=0.5)
    requests[0] = requests[0]._replace(tbt_s=0.1)
    order = slai(requests, 1.0, 0.001, 0.0, AS_PUBLISHED)
    assert ids(order.listed()) == [3, 4, 2, 0, 1]
    assert ids(slai(requests, 1.0, 0.001, 0.0, replace(AS_PUBLISHED, tier_first=False)).new) == [1, 0]


def test_under_the_published_clock_a_step_counts_one_millisecond_however_long_it_takes():
    mean = ARMS["slai_as_published"].step_mean()
    mean.add(0.05)
    mean.add(0.15)
    assert (mean.mean_s, mean.now_s(99.0)) == (0.001, 0.002)
    measured = ARMS["slai"].step_mean()
    measured.add(0.05)
    measured.add(0.15)
    assert (measured.mean_s, measured.now_s(99.0)) == (pytest.approx(0.1), 99.0)


def test_on_vllm_decodes_beyond_what_prefills_leave_of_the_budget_are_held():
    order = slai(made(tbt_s=1.0), 1.0, 0.01, 0.0)
    left = {0: 90, 1: 30, 2: 50}
    assert held_decodes(order, 171, left.__getitem__) == [4]
    assert held_decodes(order, 100, left.__getitem__) == [3, 4]
    assert held_decodes(order, 172, left.__getitem__) == []
    assert held_decodes(fcfs(made()), 1, left.__getitem__) == []


def test_offsets_are_parameters():
    assert ids(slai(made(tbt_s=0.1), 1.0, 0.01, 0.0, Slai(offset_steps=10)).critical) == [3, 4]

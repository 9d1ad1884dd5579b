"""The paged KV cache against a count request by request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servestudy.engine.decodes import Cohort
from servestudy.engine.kv_cache import KvCache


def blocks(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def test_admission_leaves_the_watermark_free_and_growth_may_use_it():
    cache, cohort = KvCache(10, 16, watermark_blocks=2), Cohort(16)
    assert not cache.allocate(8 * 16 + 1)
    assert cache.free_blocks == 10
    assert cache.allocate(8 * 16)
    cohort.start(8 * 16)
    cache.grow(32, cohort.tick(32))
    assert (cache.free_blocks, cache.tokens, cohort.tokens) == (0, 160, 160)
    with pytest.raises(RuntimeError, match="over capacity by 1 blocks"):
        cache.grow(1, cohort.tick())


def test_blocks_returned_twice_are_an_error():
    cache = KvCache(10, 16)
    cache.allocate(20)
    cache.release(20)
    with pytest.raises(RuntimeError, match="nobody held"):
        cache.release(20)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([1, 2, 16]),
    st.lists(
        st.tuples(
            st.sampled_from(["start", "stop", "tick", "release"]),
            st.integers(0, 70),
            st.integers(0, 9),
            st.sampled_from([[0], [1], [0, 1]]),
        ),
        max_size=40,
    ),
)
def test_closed_forms_equal_a_count_request_by_request(block_tokens, steps):
    cache, cohorts = KvCache(1000, block_tokens), (Cohort(block_tokens), Cohort(block_tokens))
    growing: list[list[int]] = []  # [tokens, offset, cohort]
    fixed: list[int] = []
    for what, number, which, chosen in steps:
        if what == "start":
            cache.allocate(number)
            growing.append([number, cohorts[chosen[0]].start(number), chosen[0]])
        elif what == "stop" and growing:
            tokens, offset, cohort = growing.pop(which % len(growing))
            assert cohorts[cohort].stop(offset) == tokens
            fixed.append(tokens)
        elif what == "release" and fixed:
            cache.release(fixed.pop(which % len(fixed)))
        elif what == "tick":
            served, still = [r for r in growing if r[2] in chosen], [r for r in growing if r[2] not in chosen]
            others = sum(blocks(tokens, block_tokens) for tokens in fixed + [tokens for tokens, *_ in still])
            fit, free = 0, 1000 - others
            while fit < number and sum(blocks(tokens + fit + 1, block_tokens) for tokens, *_ in served) <= free:
                fit += 1
            assert cache.ticks_that_fit([cohorts[i] for i in chosen], number) == fit
            for i in chosen:
                cache.grow(fit * cohorts[i].size, cohorts[i].tick(fit))
            for request in served:
                request[0] += fit
        held = [tokens for tokens, *_ in growing]
        assert cache.free_blocks == 1000 - sum(blocks(tokens, block_tokens) for tokens in held + fixed)
        assert cache.tokens == sum(held + fixed)
        assert cache.taken_tokens() == (1000 - cache.free_blocks) * block_tokens
        for i, cohort in enumerate(cohorts):
            members = [tokens for tokens, _, where in growing if where == i]
            assert (cohort.tokens, cohort.size) == (sum(members), len(members))
            assert cohort.blocks_of_tick() == sum(tokens % block_tokens == 0 for tokens in members)

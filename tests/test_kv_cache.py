"""The paged KV cache against a count request by request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servestudy.engine.kv_cache import KvCache


def blocks(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def test_admission_leaves_the_watermark_free_and_growth_may_use_it():
    cache = KvCache(10, 16, watermark_blocks=2)
    assert not cache.allocate(8 * 16 + 1)
    assert cache.free_blocks == 10
    assert cache.allocate(8 * 16)
    cache.start_growing(8 * 16)
    cache.tick(32)
    assert (cache.free_blocks, cache.growing_tokens) == (0, 160)
    with pytest.raises(RuntimeError, match="over capacity by 1 blocks"):
        cache.tick()


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
        st.tuples(st.sampled_from(["start", "stop", "tick", "release"]), st.integers(0, 70), st.integers(0, 9)),
        max_size=40,
    ),
)
def test_closed_forms_equal_a_count_request_by_request(block_tokens, steps):
    cache = KvCache(1000, block_tokens)
    growing: list[list[int]] = []  # [tokens, offset]
    fixed: list[int] = []
    for what, number, which in steps:
        if what == "start":
            cache.allocate(number)
            growing.append([number, cache.start_growing(number)])
        elif what == "stop" and growing:
            tokens, offset = growing.pop(which % len(growing))
            assert cache.stop_growing(offset) == tokens
            fixed.append(tokens)
        elif what == "release" and fixed:
            cache.release(fixed.pop(which % len(fixed)))
        elif what == "tick":
            fit, free = 0, 1000 - sum(blocks(tokens, block_tokens) for tokens in fixed)
            while fit < number and sum(blocks(tokens + fit + 1, block_tokens) for tokens, _ in growing) <= free:
                fit += 1
            assert cache.ticks_that_fit(number) == fit
            cache.tick(fit)
            for request in growing:
                request[0] += fit
        held = [tokens for tokens, _ in growing]
        assert cache.free_blocks == 1000 - sum(blocks(tokens, block_tokens) for tokens in held + fixed)
        assert (cache.growing_tokens, cache.fixed_tokens, cache.growing) == (sum(held), sum(fixed), len(held))
        assert cache.blocks_of_next_tick() == sum(tokens % block_tokens == 0 for tokens in held)
        assert cache.taken_tokens() == (1000 - cache.free_blocks) * block_tokens

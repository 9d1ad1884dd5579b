"""The iteration time: table, interpolation, attention terms."""

import pytest

from servestudy.engine.time_model import PROFILED_TOKENS, PROFILES, time_model
from servestudy.errors import UserError

A100 = PROFILES["llama_2_7b_a100"]


def test_profiled_token_counts_cost_what_the_table_says():
    for model in PROFILES.values():
        assert len(model.linear_ms) == len(PROFILED_TOKENS)
        for tokens, ms in zip(PROFILED_TOKENS, model.linear_ms, strict=True):
            assert model.iteration_s(tokens, 0, 0) == pytest.approx(ms / 1000, rel=1e-12)


@pytest.mark.parametrize(
    ("tokens", "ms"),
    [(1, 9.06), (9, 9.18), (24, (9.18 + 9.54) / 2), (633, 33.36 + (46.03 - 33.36) / 2), (2049, 133.46 + 63.45 / 128)],
)
def test_between_profiled_counts_interpolates_after_rounding_up_to_8(tokens, ms):
    assert A100.iteration_s(tokens, 0, 0) == pytest.approx(ms / 1000, rel=1e-12)


def test_above_the_table_the_last_slope_goes_on():
    slope_ms = (259.92 - 196.91) / 1024
    assert A100.iteration_s(4097, 0, 0) == pytest.approx((259.92 + 8 * slope_ms) / 1000, rel=1e-12)
    assert A100.iteration_s(8192, 0, 0) == pytest.approx((259.92 + 4096 * slope_ms) / 1000, rel=1e-12)


def test_decodes_pay_for_the_kv_that_they_read_and_prefills_for_the_square():
    assert A100.iteration_s(8, 8, 1000) == pytest.approx(9.06e-3 + 0.2e-3 + 0.4e-3, rel=1e-12)
    assert A100.iteration_s(512, 0, 0, 512**2) == pytest.approx(33.36e-3 + 4e-3, rel=1e-12)
    assert A100.iteration_s(8, 0, 10_000) == pytest.approx(9.06e-3, rel=1e-12), "no decodes, no KV read"


def test_terms_that_were_not_fitted_are_marked_and_scaled():
    h100, llama3 = PROFILES["llama_2_7b_h100"], PROFILES["llama_3_8b_a100"]
    assert (A100.attention_is_estimate, h100.attention_is_estimate, llama3.attention_is_estimate) == (False, True, True)
    assert h100.kv_token_s == pytest.approx(0.244e-6, rel=0.01)
    assert h100.prefill_512_s == pytest.approx(1.28e-3, rel=0.01)
    assert llama3.kv_token_s == pytest.approx(0.1e-6)


def test_unknown_time_model_is_named_with_the_known_ones():
    with pytest.raises(UserError, match="'b200' is unknown; there are llama_2_7b_a100, "):
        time_model("b200")

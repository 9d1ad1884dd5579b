"""How far the two readings of prefill attention lie apart (see docs/LIMITATIONS.md)."""

import pytest

from servestudy.engine.time_model import PROFILES, TimeModel

QUADRATIC = PROFILES["llama_2_7b_a100"]
ARITHMETIC = QUADRATIC.with_arithmetic_attention()
LAYERS, WIDTH, CHUNK = 32, 4096, 2048


def chunks(tokens: int) -> list[tuple[int, int]]:
    """(cached, new) tokens of each chunk of a prompt."""
    return [(cached, min(CHUNK, tokens - cached)) for cached in range(0, tokens, CHUNK)]


def prompt_s(model: TimeModel, tokens: int) -> float:
    """Seconds of a prompt in chunks of 2,048 tokens."""
    return sum(model.iteration_s(new, 0, 0, (cached + new) ** 2 - cached**2) for cached, new in chunks(tokens))


@pytest.mark.parametrize("tokens", [70, 512, 5000])
def test_arithmetic_attention_counts_the_operations_at_half_of_the_peak(tokens):
    attention_s = prompt_s(ARITHMETIC, tokens) - sum(QUADRATIC.iteration_s(new, 0, 0) for _, new in chunks(tokens))
    operations = sum(4 * new * (cached + new / 2) * WIDTH * LAYERS for cached, new in chunks(tokens))
    assert attention_s == pytest.approx(operations / (0.5 * 312e12) + 3.5e-3 * len(chunks(tokens)), rel=1e-9)


@pytest.mark.parametrize(
    ("tokens", "ratio"), [(70, 0.75), (512, 1.0), (2048, 1.37), (4096, 1.73), (8192, 2.36), (32768, 4.63)]
)
def test_quadratic_attention_equals_arithmetic_at_512_tokens_and_is_dearer_beyond(state_fact, tokens, ratio):
    quadratic_s, arithmetic_s = prompt_s(QUADRATIC, tokens), prompt_s(ARITHMETIC, tokens)
    state_fact(
        f"time of a prompt of {tokens} tokens: {arithmetic_s * 1e3:.0f} ms with arithmetic attention, "
        f"{quadratic_s * 1e3:.0f} ms with quadratic"
    )
    assert quadratic_s / arithmetic_s == pytest.approx(ratio, rel=0.01)

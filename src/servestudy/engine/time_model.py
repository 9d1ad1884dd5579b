"""Seconds that one iteration takes: measured linear operators of a model on a GPU plus fitted attention terms.

Source of the numbers: the tables that the tiers study's simulator (a fork of Vidur) was profiled with, sums over 32
layers of the median times of all operators but attention and the saving of KV, tensor parallel 1; attention is a fit to
that study's own results for vLLM on an A100 (end-to-end, TTFT and decode times of 24 rows, 1.6 % at most). Embedding,
LM head, sampling and CPU time are in neither.

All prompts of that fit have 512 tokens, so it cannot tell a constant from a quadratic part of prefill attention. Both
readings are here: `quadratic` (all of it grows with the square, which overprices long prompts), and `arithmetic` (its
floating-point operations at half of the GPU's peak, plus 3.5 ms an iteration for launches and saving KV).

Valid for 1 to 4,096 batched tokens, and with confidence for batches like those of the fit: prompts about 512 tokens
long, KV of up to some ten thousand tokens. Above 4,096 tokens the table is extrapolated with its last slope.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace

from servestudy.errors import UserError

ROUND_TO_TOKENS = 8
"""Linear operators are priced at the batched tokens rounded up to a multiple of this, as profiled."""

ATTENTION_EFFICIENCY = 0.5
PREFILL_FIXED_S = 3.5e-3

PROFILED_TOKENS = (8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)


@dataclass(frozen=True)
class TimeModel:
    """Iteration times of one model on one GPU.

    linear_ms: time of the linear operators at each of PROFILED_TOKENS.
    decode_s: added to an iteration that has decodes.
    kv_token_s: added for each KV token that its decodes read.
    prefill_512_s: attention of a prompt of 512 tokens; grows with the square.
    prefill_fixed_s: added to an iteration that prefills.
    peak_flops: floating-point operations a second of the GPU, dense 16 bit.
    kv_token_bytes: KV of one token, all layers.
    kv_blocks: default capacity in blocks of 16 tokens, on 80 GiB.
    attention_is_estimate: attention terms are scaled from another GPU or model, not fitted.
    """

    name: str
    linear_ms: tuple[float, ...]
    decode_s: float
    kv_token_s: float
    prefill_512_s: float
    kv_token_bytes: int
    kv_blocks: int
    peak_flops: float
    prefill_fixed_s: float = 0.0
    attention_is_estimate: bool = False
    _linear_s: tuple[float, ...] = field(init=False, repr=False, compare=False)

    max_profiled_tokens = PROFILED_TOKENS[-1]

    def __post_init__(self):
        grid = range(0, self.max_profiled_tokens + 1, ROUND_TO_TOKENS)
        object.__setattr__(self, "_linear_s", tuple(map(self._interpolated_s, grid)))

    def _interpolated_s(self, tokens: int) -> float:
        """By straight lines between the profiled token counts, and beyond the ends; nothing for no token."""
        if not tokens:
            return 0.0
        right = min(max(1, bisect_left(PROFILED_TOKENS, tokens)), len(PROFILED_TOKENS) - 1)
        t0, t1 = PROFILED_TOKENS[right - 1 : right + 1]
        y0, y1 = self.linear_ms[right - 1 : right + 1]
        return (y0 * (t1 - tokens) + y1 * (tokens - t0)) / (t1 - t0) / 1000

    def iteration_s(
        self, batched_tokens: int, decode_seqs: int, decode_kv_tokens: int, prefill_squares: int = 0
    ) -> float:
        """Seconds of an iteration.

        batched_tokens: prefill tokens plus one a decode. decode_kv_tokens: KV tokens that the decodes hold before the
        iteration. prefill_squares: sum over prefill chunks of (c + s)**2 - c**2, s new tokens after c cached ones, so
        that a prompt costs the same attention however it is cut.
        """
        if batched_tokens <= self.max_profiled_tokens:
            seconds = self._linear_s[-(-batched_tokens // ROUND_TO_TOKENS)]
        else:
            seconds = self._interpolated_s(-(-batched_tokens // ROUND_TO_TOKENS) * ROUND_TO_TOKENS)
        if decode_seqs:
            seconds += self.decode_s + self.kv_token_s * decode_kv_tokens
        if prefill_squares:
            seconds += self.prefill_fixed_s + self.prefill_512_s * prefill_squares / 262_144
        return seconds

    def with_arithmetic_attention(self) -> "TimeModel":
        """The same with prefill attention from its operations: 4 * s * (c + s / 2) * 4,096 for s new tokens after c
        cached ones in each of 32 layers. Equal to the fit within 2 % at 512 tokens."""
        operations = 2 * 4096 * 32 * 512**2
        prefill_512_s = operations / (ATTENTION_EFFICIENCY * self.peak_flops)
        return replace(self, prefill_512_s=prefill_512_s, prefill_fixed_s=PREFILL_FIXED_S)


_A100_KV_TOKEN_S = 0.40e-6
_A100_PREFILL_512_S = 4.0e-3

PROFILES = {
    model.name: model
    for model in (
        TimeModel(
            name="llama_2_7b_a100",
            linear_ms=(
                *(9.06, 9.18, 9.54, 9.70, 11.78, 12.24, 17.82, 15.92, 17.81),
                *(22.72, 23.57, 33.36, 46.03, 67.94, 98.98, 133.46, 196.91, 259.92),
            ),
            decode_s=0.2e-3,
            kv_token_s=_A100_KV_TOKEN_S,
            prefill_512_s=_A100_PREFILL_512_S,
            kv_token_bytes=524_288,
            kv_blocks=7424,
            peak_flops=312e12,
        ),
        # KV reads scale with the memory rate that small batches reach (0.22 against 0.36 us a token in theory), prefill
        # attention with the rate of the linear operators at 4,096 tokens (204 against 638 TFLOP/s).
        TimeModel(
            name="llama_2_7b_h100",
            linear_ms=(
                *(5.50, 5.79, 5.79, 5.86, 7.30, 6.37, 7.38, 7.41, 9.15),
                *(9.76, 11.04, 11.98, 18.82, 21.02, 33.38, 40.42, 63.97, 83.21),
            ),
            decode_s=0.2e-3,
            kv_token_s=_A100_KV_TOKEN_S * 0.22 / 0.36,
            prefill_512_s=_A100_PREFILL_512_S * 204 / 638,
            kv_token_bytes=524_288,
            kv_blocks=7424,
            peak_flops=989e12,
            attention_is_estimate=True,
        ),
        # A quarter of the KV heads, as many query heads: a quarter of the KV to read, the same prefill attention.
        TimeModel(
            name="llama_3_8b_a100",
            linear_ms=(
                *(9.98, 10.13, 10.91, 11.23, 12.61, 13.18, 17.44, 16.77, 19.49),
                *(27.12, 27.74, 34.64, 52.94, 75.14, 106.91, 143.68, 205.17, 273.25),
            ),
            decode_s=0.2e-3,
            kv_token_s=_A100_KV_TOKEN_S / 4,
            prefill_512_s=_A100_PREFILL_512_S,
            kv_token_bytes=131_072,
            kv_blocks=30_208,
            peak_flops=312e12,
            attention_is_estimate=True,
        ),
    )
}
"""Time models by name."""


def time_model(name: str) -> TimeModel:
    """The profile of that name; raises UserError if there is none."""
    if name not in PROFILES:
        raise UserError(f"time model {name!r} is unknown; there are {', '.join(PROFILES)}")
    return PROFILES[name]

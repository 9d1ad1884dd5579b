"""Shapes of the models that are measured, and what is measured on each. Weights are random: only shapes count."""

import math
from dataclasses import dataclass

BLOCK_TOKENS = 16
SEED = 0


@dataclass(frozen=True)
class Preset:
    """A Qwen2-shaped model and the engine around it.

    budget: most tokens of a step. kv_tokens: KV capacity, so that every device meets the same regime; memory of a GPU
        would never fill. tight_kv_tokens: of the cells with little KV.
    tokens_per_request: prompt and output of a window's mean request; where the trace has more, lengths are divided by a
        common scale. requests: of a window that are replayed, from its start.
    """

    name: str
    layers: int
    hidden: int
    mlp: int
    heads: int
    kv_heads: int
    vocabulary: int
    budget: int
    kv_tokens: int
    tight_kv_tokens: int
    max_num_seqs: int
    tokens_per_request: float
    requests: int
    dtype: str

    @property
    def kv_bytes_per_token(self) -> int:
        """KV of one token in all layers."""
        return 2 * self.layers * self.kv_heads * (self.hidden // self.heads) * (4 if self.dtype == "float32" else 2)


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("tiny", 4, 256, 1024, 4, 2, 8192, 256, 32_000, 3_200, 64, 160, 80, "float32"),
        Preset("0.5b", 24, 896, 4864, 14, 2, 32_000, 2048, 120_000, 30_000, 128, math.inf, 200, "bfloat16"),
        Preset("1.5b", 28, 1536, 8960, 12, 2, 32_000, 4096, 120_000, 30_000, 128, math.inf, 200, "bfloat16"),
        Preset("7b", 28, 3584, 18_944, 28, 4, 32_000, 2048, 120_000, 30_000, 128, math.inf, 200, "bfloat16"),
    )
}
"""By name: tiny for a CPU, 7b for one recent GPU, 1.5b for a smaller one. 0.5b, the published model's size, spends its
steps on the host of a recent GPU, where prefill and decode hardly compete."""

"""What a replica of the serving model is: its capacity, its iteration times, how it preempts."""

from dataclasses import dataclass

from servestudy.engine.time_model import PROFILES, TimeModel
from servestudy.schedulers.protocol import ReplicaLimits

BLOCK_TOKENS = 16
WATERMARK_SHARE = 0.01
"""Of all blocks, kept free at admissions; vLLM's default."""


def replica_limits(kv_blocks: int, max_num_seqs: int = 128, max_num_batched_tokens: int = 2048) -> ReplicaLimits:
    """Limits of a replica with that many blocks of 16 tokens and vLLM's watermark."""
    return ReplicaLimits(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_kv_tokens=kv_blocks * BLOCK_TOKENS,
        block_tokens=BLOCK_TOKENS,
        watermark_tokens=int(kv_blocks * WATERMARK_SHARE) * BLOCK_TOKENS,
    )


LLAMA_2_7B_A100 = PROFILES["llama_2_7b_a100"]


@dataclass(frozen=True)
class ReplicaConfig:
    """Raises ValueError for what no engine could have.

    swap_bytes_per_s: to and from host memory, 25 GB/s being PCIe 4. drain_s: `run` begins no iteration later than this
    after the last arrival.
    """

    limits: ReplicaLimits = replica_limits(LLAMA_2_7B_A100.kv_blocks)  # noqa: RUF009 frozen
    time_model: TimeModel = LLAMA_2_7B_A100
    preemption: str = "recompute"
    swap_bytes_per_s: float = 25e9
    drain_s: float = 3600.0

    def __post_init__(self):
        limits = self.limits
        if limits.max_kv_tokens % limits.block_tokens or limits.watermark_tokens % limits.block_tokens:
            raise ValueError(f"{limits}: KV tokens and watermark must be whole blocks")
        if limits.max_num_batched_tokens < limits.max_num_seqs:
            raise ValueError(f"{limits}: max_num_batched_tokens must be at least max_num_seqs")
        if self.preemption not in ("recompute", "swap"):
            raise ValueError(f"preemption is {self.preemption!r}, must be 'recompute' or 'swap'")

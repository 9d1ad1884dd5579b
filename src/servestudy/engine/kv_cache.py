"""Paged KV cache: counts blocks and the tokens in them. What decodes take is counted in decodes.py."""

from collections.abc import Sequence

from servestudy.engine.decodes import Cohort


class KvCache:
    """Blocks of `block_tokens` tokens. To take more than there are is an error of the engine: RuntimeError.

    Attributes
    ----------
    total_blocks, free_blocks: capacity, and what of it is free.
    tokens: tokens in the blocks taken; what swapping in or prefilling will fill counts.
    """

    __slots__ = ("block_tokens", "free_blocks", "tokens", "total_blocks", "watermark_blocks")

    def __init__(self, total_blocks: int, block_tokens: int, watermark_blocks: int = 0):
        self.total_blocks = self.free_blocks = total_blocks
        self.block_tokens = block_tokens
        self.watermark_blocks = watermark_blocks
        self.tokens = 0

    def taken_tokens(self) -> int:
        """Tokens that the taken blocks have room for."""
        return (self.total_blocks - self.free_blocks) * self.block_tokens

    def allocate(self, tokens: int) -> bool:
        """Give out blocks for `tokens` if that leaves the watermark free. Returns whether it did."""
        free_blocks = self.free_blocks + -tokens // self.block_tokens
        if free_blocks < self.watermark_blocks:
            return False
        self.free_blocks = free_blocks
        self.tokens += tokens
        return True

    def release(self, tokens: int) -> None:
        """Return the blocks of a request of `tokens`."""
        self.free_blocks -= -tokens // self.block_tokens
        self.tokens -= tokens
        if self.free_blocks > self.total_blocks:
            raise RuntimeError("KV blocks returned that nobody held")

    def grow(self, tokens: int, blocks: int) -> None:
        """Decodes have made `tokens` more, for which they took `blocks`."""
        self.tokens += tokens
        self.free_blocks -= blocks
        if self.free_blocks < 0:
            raise RuntimeError(f"KV cache over capacity by {-self.free_blocks} blocks")

    def ticks_that_fit(self, cohorts: Sequence[Cohort], most: int) -> int:
        """How many of the next `most` ticks of these cohorts, taken together, the free blocks suffice for."""
        size, block_tokens, free = sum(cohort.size for cohort in cohorts), self.block_tokens, self.free_blocks
        if (most // block_tokens + 1) * size <= free:
            return most
        cycles = min(most // block_tokens, free // size)
        free -= cycles * size
        ticks = cycles * block_tokens
        while ticks < most:
            for cohort in cohorts:
                free -= cohort.blocks_of_tick(ticks)
            if free < 0:
                break
            ticks += 1
        return ticks

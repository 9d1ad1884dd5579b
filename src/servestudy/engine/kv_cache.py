"""Paged KV cache: counts blocks and the tokens in them, for requests that keep their size and for those that decode.

Decoding requests grow in lock step, one token a tick. So the blocks that a tick takes depend only on how many of them
are in each phase modulo the block size, and a tick, or many, costs no loop over requests.
"""


class KvCache:
    """Blocks of `block_tokens` tokens. To take more than there are is an error of the engine: RuntimeError.

    Attributes
    ----------
    total_blocks, free_blocks: capacity, and what of it is free.
    ticks: ticks so far.
    growing, growing_tokens: number and tokens of the growing requests.
    fixed_tokens: tokens allocated to the other ones.
    """

    __slots__ = (
        "_phases",
        "block_tokens",
        "fixed_tokens",
        "free_blocks",
        "growing",
        "growing_tokens",
        "ticks",
        "total_blocks",
        "watermark_blocks",
    )

    def __init__(self, total_blocks: int, block_tokens: int, watermark_blocks: int = 0):
        self.total_blocks = self.free_blocks = total_blocks
        self.block_tokens = block_tokens
        self.watermark_blocks = watermark_blocks
        self.ticks = 0
        self.growing = 0
        self.growing_tokens = 0
        self.fixed_tokens = 0
        self._phases = [0] * block_tokens  # growing requests by offset (tokens less ticks) modulo block size

    def taken_tokens(self) -> int:
        """Tokens that the taken blocks have room for."""
        return (self.total_blocks - self.free_blocks) * self.block_tokens

    def allocate(self, tokens: int) -> bool:
        """Give out blocks for `tokens` if that leaves the watermark free. Returns whether it did."""
        free_blocks = self.free_blocks + -tokens // self.block_tokens
        if free_blocks < self.watermark_blocks:
            return False
        self.free_blocks = free_blocks
        self.fixed_tokens += tokens
        return True

    def extend(self, tokens: int) -> None:
        """One more token for a request of `tokens` that does not grow."""
        self.fixed_tokens += 1
        if not tokens % self.block_tokens:
            self.free_blocks -= 1
            self._check()

    def release(self, tokens: int) -> None:
        """Return the blocks of a request of `tokens` that does not grow."""
        self.free_blocks -= -tokens // self.block_tokens
        self.fixed_tokens -= tokens
        if self.free_blocks > self.total_blocks:
            raise RuntimeError("KV blocks returned that nobody held")

    def start_growing(self, tokens: int) -> int:
        """From the next tick on a request of `tokens` grows. Returns its offset, tokens less ticks."""
        offset = tokens - self.ticks
        self.fixed_tokens -= tokens
        self.growing_tokens += tokens
        self._phases[offset % self.block_tokens] += 1
        self.growing += 1
        return offset

    def stop_growing(self, offset: int) -> int:
        """From the next tick on the request of that offset keeps its size. Returns its tokens."""
        tokens = offset + self.ticks
        self.fixed_tokens += tokens
        self.growing_tokens -= tokens
        self._phases[offset % self.block_tokens] -= 1
        self.growing -= 1
        return tokens

    def blocks_of_next_tick(self) -> int:
        """Blocks that the growing requests need for one more token each."""
        return self._phases[-self.ticks % self.block_tokens]

    def ticks_that_fit(self, most: int) -> int:
        """How many of the next `most` ticks the free blocks suffice for."""
        growing, block_tokens, free = self.growing, self.block_tokens, self.free_blocks
        if (most // block_tokens + 1) * growing <= free:
            return most
        cycles = min(most // block_tokens, free // growing)
        free -= cycles * growing
        ticks = cycles * block_tokens
        while ticks < most:
            free -= self._phases[(-self.ticks - ticks) % block_tokens]
            if free < 0:
                break
            ticks += 1
        return ticks

    def tick(self, times: int = 1) -> None:
        """Every growing request takes a token, `times` over."""
        block_tokens, phases = self.block_tokens, self._phases
        cycles, part = divmod(times, block_tokens)
        blocks = cycles * self.growing
        if part:
            first = (1 - self.ticks - part) % block_tokens  # phases go downwards as ticks go up
            end = first + part
            blocks += sum(phases[first:end])
            if end > block_tokens:
                blocks += sum(phases[: end - block_tokens])
        self.free_blocks -= blocks
        self.ticks += times
        self.growing_tokens += times * self.growing
        self._check()

    def _check(self) -> None:
        if self.free_blocks < 0:
            raise RuntimeError(f"KV cache over capacity by {-self.free_blocks} blocks")

"""What a replica can still take in one iteration, counted as the engine will check it."""

from servestudy.schedulers.protocol import UNTIL_EVENT, ReplicaView


class Room:
    """Sequence slots, KV and token budget that are left while a scheduler picks whom to admit.

    `tokens` is the prefill budget of an iteration, by default what the decodes leave of `max_num_batched_tokens`. It is
    used up when the prefill backlog reaches it: more would only hold KV and wait. A request that comes back counts with
    all the KV that it needs, whether it recomputes it or swaps it in.
    """

    __slots__ = ("_block_tokens", "admitted", "backlog", "kv_tokens", "slots", "tokens")

    def __init__(self, view: ReplicaView, tokens: int | None = None):
        limits = view.limits
        self._block_tokens = limits.block_tokens
        self.slots = limits.max_num_seqs - view.running_count
        self.kv_tokens = limits.max_kv_tokens - limits.watermark_tokens - view.kv_tokens
        self.tokens = limits.max_num_batched_tokens - view.decoding_count if tokens is None else tokens
        self.backlog = view.prefill_backlog
        self.admitted: list[int] = []

    def is_open(self) -> bool:
        """Are a slot and token budget left?"""
        return self.slots > 0 and self.backlog < self.tokens

    def take(self, request_id: int, kv_tokens: int) -> bool:
        """Admit a request that needs `kv_tokens` if a slot and its blocks are free; return whether it was."""
        kv_tokens_in_blocks = kv_tokens + -kv_tokens % self._block_tokens
        if self.slots <= 0 or kv_tokens_in_blocks > self.kv_tokens:
            return False
        self.slots -= 1
        self.kv_tokens -= kv_tokens_in_blocks
        self.backlog += kv_tokens
        self.admitted.append(request_id)
        return True

    def give_back(self, kv_tokens: int) -> None:
        """A running request that holds `kv_tokens` is being preempted."""
        self.slots += 1
        self.kv_tokens += kv_tokens + -kv_tokens % self._block_tokens

    def valid_steps(self) -> int:
        """For how many iterations nobody else can be admitted. Slots and blocks come free only at events."""
        return UNTIL_EVENT if self.slots <= 0 else self.steps_without_budget()

    def steps_without_budget(self) -> int:
        """For how many iterations the token budget stays used up, or until the next event if it is not.

        It comes back when less than an iteration's worth of backlog is left. After an admission the next view knows the
        backlog better: swapped KV does not add to it.
        """
        if self.tokens <= 0 or self.backlog < self.tokens:
            return UNTIL_EVENT
        return 1 if self.admitted else self.backlog // self.tokens

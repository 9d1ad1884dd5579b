"""How free a replica is: virtual usage, headroom per tier, freeness; and the load of the OSDI'24 Llumnix artifact.

These rules see a replica only through `ReplicaView`, so that they serve any engine. Sources: the published study's
llumlet scheduler; the artifact of the OSDI'24 Llumnix paper for `osdi_load`.
"""

import math
from typing import Protocol

from servestudy.errors import UserError

HEADROOM_SHARE = 0.20
HEADROOM_DECAY = 2.5
HEADROOM_MODES = ("exponential", "linear", "zero")
DRAIN_USAGE = 10  # a draining replica counts ten times its blocks as used
OSDI_PRIORITY_TOKENS = 1600


class ReplicaView(Protocol):
    """What dispatch, migration and autoscaling see of a replica. Blocks are KV blocks."""

    index: int
    draining: bool
    total_blocks: int
    watermark_blocks: int
    block_tokens: int
    used_blocks: int
    reserved_blocks: int  # for requests that are about to migrate here
    requests_of_tier: list[int]  # queued and running ones

    def head_of_line_blocks(self) -> int:
        """Blocks that the first queued request needs for its next step; 0 if nothing is queued."""

    def waiting_blocks(self) -> float:
        """Prompt tokens of all waiting requests over the tokens of a block, not rounded."""

    def batch_size(self) -> int:
        """Requests that hold an entry in the block table: those in flight."""

    def waiting_requests(self) -> int: ...

    def running_requests(self) -> int: ...


def headroom_blocks(
    tiers: int, total_blocks: int, mode: str = "exponential", share: float = HEADROOM_SHARE, whole_blocks: bool = True
) -> list[float]:
    """Headroom of tiers 0 .. K-1 in blocks. One tier has none.

    Exponential: M * share * exp(-2.5 p / (K - 1)); linear: M * share * (1 - p / (K - 1)); truncated to whole blocks
    as the study does, unless `whole_blocks` is off. Raises UserError for an unknown mode.
    """
    if mode not in HEADROOM_MODES:
        raise UserError(f"unknown headroom mode {mode!r}; allowed: {', '.join(HEADROOM_MODES)}")
    if tiers == 1 or mode == "zero":
        return [0] * tiers
    if mode == "linear":
        decay = [1 - tier / (tiers - 1) for tier in range(tiers)]
    else:
        decay = [math.exp(-HEADROOM_DECAY / (tiers - 1) * tier) for tier in range(tiers)]
    blocks = [total_blocks * share * part for part in decay]
    return [int(block) for block in blocks] if whole_blocks else blocks


def freeness(replica: ReplicaView, headroom: list[float] | None, per_request: bool = True) -> float:
    """(M - virtual usage) / requests in flight; may be negative. `headroom` None: freeness for normal priority.

    A tier's whole headroom counts once if the replica has any request of that tier. Of the queue only the head counts.
    `per_request` off: not divided, as in an older revision of the study.
    """
    usage = replica.used_blocks + replica.head_of_line_blocks()
    if headroom is not None:
        for count, blocks in zip(replica.requests_of_tier, headroom, strict=True):
            if count:
                usage += blocks
    if replica.draining:
        usage += DRAIN_USAGE * replica.total_blocks
    free = replica.total_blocks - usage
    return free / max(1, replica.batch_size()) if per_request else free


def osdi_load(replica: ReplicaView, high_priority: bool = False, priorities: bool = False) -> float:
    """Dispatch load of the OSDI'24 artifact for a request: lower is freer, -inf without any request.

    All waiting blocks count. With `priorities` (tier 0 is the high one), a normal request sees an instance that has a
    high-priority one as if only 1,600 tokens could be used there; a high-priority request the instances without one.
    Without priorities this is the load of INFaaS++.
    """
    requests = replica.running_requests() + replica.waiting_requests()
    if not requests:
        return -math.inf
    available = replica.total_blocks - replica.used_blocks - replica.watermark_blocks
    reserved = 0.0
    if priorities and high_priority != (replica.requests_of_tier[0] > 0):
        reserved = replica.total_blocks - OSDI_PRIORITY_TOKENS / replica.block_tokens
    return -(available - replica.waiting_blocks() - reserved) / requests


def osdi_migration_load(replica: ReplicaView) -> float:
    """Migration load of the OSDI'24 artifact with defragmentation: lower is freer, -inf where nothing runs or waits.

    An instance with any high-priority request counts as if only 1,600 tokens could be used there.
    """
    requests = replica.running_requests() + (replica.waiting_requests() > 0)
    if not requests:
        return -math.inf
    available = replica.total_blocks - replica.used_blocks - replica.watermark_blocks
    reserved = 0.0
    if replica.requests_of_tier[0]:
        reserved = replica.total_blocks - OSDI_PRIORITY_TOKENS / replica.block_tokens
    return -(available - replica.waiting_blocks() - reserved) / requests

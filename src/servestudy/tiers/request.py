"""A request while it is simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servestudy.tiers.workload import Requests

if TYPE_CHECKING:
    from servestudy.tiers.migration import StagedMove


class TierRequest:
    """One request. `prefill_tokens` and `decode_tokens` change when it is restarted, the totals do not.

    `processed` counts as the study's simulator does: prompt tokens computed, and from the end of the prefill on one
    more a token made, so that the request is done at prefill + decode.
    """

    __slots__ = (
        "arrival_s",
        "blocks",
        "busy_s",
        "completion_s",
        "decode_tokens",
        "first_scheduled_s",
        "first_token_s",
        "id",
        "joined",
        "migration",
        "migrations",
        "output_tokens",
        "prefill_tokens",
        "processed",
        "restarts",
        "tier",
        "total_tokens",
    )

    def __init__(self, number: int, arrival_s: float, prompt_tokens: int, output_tokens: int, tier: int) -> None:
        self.id = number
        self.arrival_s = arrival_s
        self.prefill_tokens = prompt_tokens
        self.decode_tokens = output_tokens
        self.output_tokens = output_tokens
        self.total_tokens = prompt_tokens + output_tokens
        self.tier = tier
        self.processed = 0
        self.joined = 0  # when it last joined a queue, in the order of joining
        self.blocks = 0
        self.busy_s = 0.0
        self.first_scheduled_s: float | None = None
        self.first_token_s: float | None = None
        self.completion_s: float | None = None
        self.restarts = 0
        self.migrations = 0
        self.migration: StagedMove | None = None

    @property
    def prefilled(self) -> bool:
        return self.processed >= self.prefill_tokens

    def restart(self) -> None:
        """Preemption by recomputation: what it has processed becomes its prompt, the rest its output."""
        self.prefill_tokens = self.processed
        self.decode_tokens = self.total_tokens - self.processed
        self.processed = 0
        self.blocks = 0
        self.restarts += 1


def make_requests(requests: Requests) -> list[TierRequest]:
    """A fresh object for each request, in arrival order."""
    columns = (requests.arrival_s, requests.prompt_tokens, requests.output_tokens, requests.tier)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [TierRequest(number, *row) for number, row in enumerate(rows)]

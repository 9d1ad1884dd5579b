"""The latencies of every request of a run, for distributions."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from servestudy.tables import column
from servestudy.tiers.metrics import KEYS, LATENCIES, latencies
from servestudy.tiers.outcome import Outcome

REQUEST_SCHEMA = pa.schema(
    [
        *KEYS,
        column("request_id", pa.int64(), "number of the request, by arrival"),
        column("tier", pa.int32(), "its tier, 0 the most important"),
        *(column(f"{name}_s", pa.float64(), f"{meaning}; NaN: it did not get that far")
          for name, meaning in LATENCIES.items()),
    ]
)  # fmt: skip


def request_rows(outcome: Outcome, tiers: int) -> Iterator[dict]:
    """The columns of REQUEST_SCHEMA from `request_id` on."""
    measured = {f"{name}_s": values.tolist() for name, values in latencies(outcome).items()}
    for number, tier in enumerate(outcome.tier.tolist()):
        yield {"request_id": number, "tier": tier} | {name: values[number] for name, values in measured.items()}

"""Azure LLM inference traces, 2023 and 2024: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

2023 has naive stamps with seven digits after the second, 2024 stamps with six digits and `+00:00`; a whole
second has none. The published study's time is the float of epoch seconds nearest to the stamp, cut (not
rounded) to whole microseconds and read as UTC. Arrivals then lie on a grid of 2^-22 s, and the study's
results depend on that grid.
"""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servestudy.traces.formats import CsvFormat

STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?", re.ASCII
)
OFFSET = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$", re.ASCII)
SHORTEST_STAMP = len("2024-05-12 00:00:00")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def times(stamps: pa.ChunkedArray) -> np.ndarray:
    """Stamps, all of the first one's kind, to float64 epoch seconds; raises ArrowInvalid for any other."""
    if pc.min(pc.binary_length(stamps)).as_py() < SHORTEST_STAMP:
        raise pa.ArrowInvalid("a date without a full time")
    zone = "UTC" if OFFSET.search(stamps[0].as_py()[SHORTEST_STAMP:]) else None
    nanoseconds = stamps.cast(pa.timestamp("ns", tz=zone)).cast(pa.int64()).to_numpy()
    return (nanoseconds // 1000) / 1e6


def parse_time(text: str) -> float:
    """One stamp to epoch seconds; raises ValueError."""
    match = STAMP.fullmatch(text)
    if not match:
        raise ValueError("TIMESTAMP is not a date and time")
    second, fraction, sign, hours, minutes = match.groups()
    try:
        time = datetime.fromisoformat(second).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError("TIMESTAMP is no valid date and time") from None
    if sign:
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        time += -offset if sign == "+" else offset
    whole_seconds = (time - EPOCH) // timedelta(seconds=1)
    microseconds = int((fraction or "0")[:6].ljust(6, "0"))
    return (whole_seconds * 1_000_000 + microseconds) / 1e6


FORMAT = CsvFormat("TIMESTAMP", "ContextTokens", "GeneratedTokens", pa.string(), times, parse_time)

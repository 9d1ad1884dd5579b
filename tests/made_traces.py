"""Raw trace files for tests, and what reading them gives."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from servestudy.errors import UserError
from servestudy.traces.reading import TraceFile

AZURE_HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURSTGPT_HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def trace(tmp_path):
    """Write a raw file and return its TraceFile with all batches joined."""

    def read(content, trace_format, max_bad_share=0.0):
        path = tmp_path / f"{trace_format}.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Read(TraceFile(path, trace_format, max_bad_share))

    return read


class Read:
    """A trace read to its end."""

    def __init__(self, trace):
        batches = list(trace)
        self.trace = trace
        self.time_s = np.concatenate([batch.time_s for batch in batches])
        self.prompt_tokens = np.concatenate([batch.prompt_tokens for batch in batches])
        self.output_tokens = np.concatenate([batch.output_tokens for batch in batches])
        self.line = np.concatenate([batch.line for batch in batches])
        assert (self.time_s.dtype, self.prompt_tokens.dtype, self.output_tokens.dtype) == ("f8", "i4", "i4")

    @property
    def rows(self):
        return list(zip(self.time_s.tolist(), self.prompt_tokens.tolist(), self.output_tokens.tolist(), strict=True))

    @property
    def counts(self):
        trace = self.trace
        return trace.rows, trace.valid_rows, trace.zero_token_rows, trace.malformed_rows, trace.backward_times


def epoch(text: str, microseconds: int = 0) -> float:
    """Nearest double to epoch seconds, by exact integers."""
    whole = (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    return (whole + microseconds) / 10**6


def refusal(read, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        read(*arguments)
    return str(caught.value)

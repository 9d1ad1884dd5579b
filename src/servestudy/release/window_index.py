"""The window index as a table: what its columns mean."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from servestudy.tables import column

_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
_STATISTICS = {"mean": "mean", "p50": "median", "p90": "90th percentile", "p95": "95th percentile",
               "p99": "99th percentile"}  # fmt: skip


def _tokens(kind: str) -> list[pa.Field]:
    fields = [column(f"{kind}_tokens_{name}", _NUMBER, f"{text} of {kind} tokens [tokens]")
              for name, text in _STATISTICS.items()]  # fmt: skip
    cv = column(f"{kind}_tokens_cv", _NUMBER, f"standard deviation over mean of {kind} tokens")
    return [*fields, cv]


INDEX_SCHEMA = pa.schema(
    [
        column("window_id", _TEXT, "id of the window"),
        column("source", _TEXT, "id of the source"),
        column("window_number", pa.int32(), "number of the window within its source, from 0"),
        column("evidence_class", _TEXT, "its class in the published study: by the first or the second sampling rule"),
        column("chronology_stratum", _TEXT, "third of the trace that holds its first row"),
        column("source_file", _TEXT, "name of the raw trace"),
        column("source_file_sha256", _TEXT, "sha256 of the raw trace"),
        column("sampling_algorithm", _TEXT, "name of the sampling rule"),
        column("sampling_seed", _COUNT, "seed of the sampling"),
        column("skip_rows", _COUNT, "valid rows at the start that no window may touch"),
        column("valid_rows", _COUNT, "rows with a time, prompt and output tokens"),
        column("zero_token_rows", _COUNT, "rows without prompt or output tokens: left out"),
        column("malformed_rows", _COUNT, "rows that cannot be read: left out"),
        column("first_malformed_line", _COUNT, "line of the first such row; null: none", nullable=True),
        column("backward_times", _COUNT, "valid rows whose time is before that of the row in front"),
        column("start_row", _COUNT, "its first row among the valid rows, from 0"),
        column("request_count", _COUNT, "requests in it"),
        column("time_s_min", _NUMBER, "first arrival in the source's own time [s]"),
        column("time_s_max", _NUMBER, "last arrival [s]"),
        column("duration_s", _NUMBER, "last arrival less first [s]"),
        column("arrival_rate_rps", _NUMBER, "requests over duration [1/s]; NaN if the duration is 0"),
        column("interarrival_mean_s", _NUMBER, "mean gap between arrivals [s]; NaN for a single request"),
        column("interarrival_cv", _NUMBER, "standard deviation over mean of the gaps; NaN if the mean is 0"),
        column("burstiness_b", _NUMBER, "(sd - mean) / (sd + mean) of the gaps; NaN likewise"),
        *_tokens("prompt"),
        *_tokens("output"),
        column("prompt_output_correlation", _NUMBER, "Pearson's; NaN if one of the two is constant"),
        column("long_context_fraction", _NUMBER, "share of requests with 8,192 tokens or more [share]"),
        column("concurrency_proxy", _NUMBER, "arrival rate x mean of output tokens [tokens/s]"),
        column("kv_pressure_proxy", _NUMBER, "mean of prompt + output tokens [tokens]"),
        column("content_sha256", _TEXT, "sha256 of its times, prompt and output tokens"),
    ]
)


def read_window_index(path: Path) -> pa.Table:
    """The index as a table of INDEX_SCHEMA. Raises KeyError if a column is missing."""
    options = pa.csv.ConvertOptions(
        column_types={field.name: field.type for field in INDEX_SCHEMA},
        null_values=[""],
        strings_can_be_null=False,
        include_columns=INDEX_SCHEMA.names,
    )
    return pa.csv.read_csv(path, convert_options=options).cast(INDEX_SCHEMA)

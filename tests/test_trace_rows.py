# ruff: noqa: F811 (fixtures are imported)
"""Reading raw traces: the valid-row rule, malformed rows with their lines, blocks, and refusals."""

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import (
    AZURE_HEADER,
    BURSTGPT_HEADER,
    refusal,
    trace,  # noqa: F401
)

from servestudy.errors import UserError
from servestudy.traces import LFS_POINTER_START, azure, burstgpt, reading
from servestudy.traces.formats import CsvReader, all_checked, checked
from servestudy.traces.reading import TraceFile

# The valid-row rule


def test_rows_with_zero_tokens_are_left_out_and_counted(trace, capsys):
    content = BURSTGPT_HEADER + "5,A,472,18,490,L\n6,A,472,0,472,L\n7,A,0,18,18,L\n8,A,1,1,2,L\n"
    read = trace(content, "burstgpt")
    assert read.rows == [(5.0, 472, 18), (8.0, 1, 1)]
    assert read.counts == (4, 2, 2, 0, 0)
    assert read.line.tolist() == [2, 5]
    assert "2 of 4 rows have no prompt or no output tokens" in capsys.readouterr().err


MALFORMED_AZURE = {
    "2024-05-12 00:00:00,5": "2 fields instead of 3",
    "2024-05-12 00:00:00,5,6,7": "4 fields instead of 3",
    "2024-05-12 00:00:00,-5,6": "negative prompt tokens",
    "2024-05-12 00:00:00,5,-6": "negative output tokens",
    "2024-05-12 00:00:00,5.0,6": "ContextTokens is not a whole number",
    "2024-05-12 00:00:00,,6": "ContextTokens is not a whole number",
    "2024-05-12 00:00:00,0x10,6": "ContextTokens is not a whole number",
    "2024-05-12 00:00:00,5,2147483648": "more than 2147483647 output tokens",
    ",5,6": "TIMESTAMP is not a date and time",
    "NaT,5,6": "TIMESTAMP is not a date and time",
    "2024-05-12,5,6": "TIMESTAMP is not a date and time",
    "2024-05-12 00:00,5,6": "TIMESTAMP is not a date and time",
    "2024-02-30 00:00:00,5,6": "TIMESTAMP is no valid date and time",
    "1715472000,5,6": "TIMESTAMP is not a date and time",
    '"2024-05-12 00:00:00",5,6': "TIMESTAMP is not a date and time",
    "2024-05-12 00:00:00,5,6\r2024-05-12 00:00:01,5,6": "5 fields instead of 3",
}
MALFORMED_BURSTGPT = {
    "nan,A,5,6,11,L": "Timestamp is not a number",
    "inf,A,5,6,11,L": "Timestamp is not a number",
    "1e400,A,5,6,11,L": "the time is inf",
    "1_0,A,5,6,11,L": "Timestamp is not a number",
    "5,A,5,-1,11,L": "negative output tokens",
}
MALFORMED_JSON = {
    '{"timestamp": 1, "input_length": 5': "not a JSON object",
    "[1, 5, 6]": "not a JSON object",
    "[" * 100_000: "not a JSON object",
    "TIMESTAMP,ContextTokens": "not a JSON object",
    '{"timestamp": 1, "input_length": 5}': "no output_length",
    '{"timestamp": NaN, "input_length": 5, "output_length": 6}': "the time is nan",
    '{"timestamp": Infinity, "input_length": 5, "output_length": 6}': "the time is inf",
    '{"timestamp": 1' + "0" * 400 + ', "input_length": 5, "output_length": 6}': "timestamp is too large",
    '{"timestamp": "1", "input_length": 5, "output_length": 6}': "timestamp is not a number",
    '{"timestamp": null, "input_length": 5, "output_length": 6}': "timestamp is not a number",
    '{"timestamp": 1, "input_length": true, "output_length": 6}': "input_length is not a whole number",
    '{"timestamp": 1, "input_length": 5.5, "output_length": 6}': "input_length is not a whole number",
    '{"timestamp": 1, "input_length": -5, "output_length": 6}': "negative prompt tokens",
    '{"timestamp": 1, "input_length": 5, "output_length": 2147483648}': "more than 2147483647 output tokens",
}
MALFORMED = [
    *(("azure", AZURE_HEADER, "2024-05-12 00:00:00,5,6\n", row, why) for row, why in MALFORMED_AZURE.items()),
    *(("burstgpt", BURSTGPT_HEADER, "5,A,5,6,11,L\n", row, why) for row, why in MALFORMED_BURSTGPT.items()),
    *(
        (name, "", '{"timestamp": 1, "input_length": 5, "output_length": 6}\n', row, why)
        for name in ("bailian", "mooncake")
        for row, why in MALFORMED_JSON.items()
    ),
]


@pytest.mark.parametrize(("trace_format", "header", "good", "row", "reason"), MALFORMED)
def test_a_malformed_row_is_left_out_and_reported_with_its_line(trace, capsys, trace_format, header, good, row, reason):
    content = header + good * 3 + row + "\n" + good * 6
    read = trace(content, trace_format, 0.1)
    line = 4 + bool(header)
    assert read.counts == (10, 9, 0, 1, 0)
    assert line not in read.line
    assert read.line[-1] == 10 + bool(header)
    (found,) = read.trace.first_malformed
    assert (found.line, found.reason) == (line, reason)
    assert found.text[:30] == row[:30]
    assert "1 of 10 rows (10 %) are malformed" in capsys.readouterr().err

    message = refusal(trace, content, trace_format, 0.09)
    assert f"{trace_format}.txt: 1 of 10 rows (10 %) are malformed" in message
    assert f"line {line}: " in message
    assert repr(row[:30])[:-1] in message
    assert reason in message
    assert "The limit is 9 % (traces.max_bad_share)" in message


def test_only_the_first_malformed_rows_are_listed(trace):
    content = AZURE_HEADER + "2024-05-12 00:00:00,5,6\n" + "bad\n" * 99
    message = refusal(trace, content, "azure", 0.5)
    assert "99 of 100 rows (99 %)" in message
    assert [f"line {line}:" in message for line in (3, 7, 8)] == [True, True, False]


def test_blank_lines_are_no_rows_but_count_as_lines(trace):
    content = AZURE_HEADER + "2024-05-12 00:00:00,5,6\n\n  \n2024-05-12 00:00:01,5,6\nbad\n\n"
    read = trace(content, "azure", 0.5)
    assert read.counts == (3, 2, 0, 1, 0)
    assert read.line.tolist() == [2, 5]
    assert read.trace.first_malformed[0].line == 6


def test_times_that_go_backwards_keep_the_file_order(trace, capsys):
    content = BURSTGPT_HEADER + "".join(f"{second},A,5,6,11,L\n" for second in (1, 3, 2, 2, 5, 4, 6, 7, 8, 9))
    read = trace(content, "burstgpt", 0.2)
    assert read.time_s.tolist() == [1, 3, 2, 2, 5, 4, 6, 7, 8, 9]
    assert read.counts == (10, 10, 0, 0, 2)
    error = capsys.readouterr().err
    assert "2 of 10 rows (20 %) have a time before their predecessor's; the first: line 4" in error

    message = refusal(trace, content, "burstgpt", 0.19)
    assert "have a time before their predecessor's; the first: line 4" in message
    assert "The limit is 19 %" in message


# Blocks


@pytest.mark.parametrize("block_bytes", [97, 128, 1000])
def test_blocks_do_not_show(trace, monkeypatch, block_bytes):
    lines = [f"2024-05-12 00:{i // 60:02d}:{i % 60:02d}.{i:06d}+00:00,{i % 7},{i}" for i in range(1, 200)]
    lines[57] = "2024-05-12 00:00:00.5,oops,3"
    lines[150] = "2024-05-12 00:00:00.25+00:00,3,3"  # goes backwards
    content = AZURE_HEADER.replace("\n", "\r\n") + "\r\n".join(lines)
    whole = trace(content, "azure", 0.1)
    monkeypatch.setattr(reading, "BLOCK_BYTES", block_bytes)
    parts = trace(content, "azure", 0.1)
    assert parts.rows == whole.rows
    assert parts.line.tolist() == whole.line.tolist()
    assert parts.counts == whole.counts == (199, 170, 28, 1, 1)
    assert parts.trace.first_malformed == whole.trace.first_malformed
    assert parts.trace.first_backward_line == whole.trace.first_backward_line == 152
    assert parts.trace.sha256 == whole.trace.sha256


def test_a_file_without_lines_is_not_read_into_memory(trace, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 100)
    assert "a line longer than 100 bytes" in refusal(trace, AZURE_HEADER + "x" * 250, "azure")


DAYS = st.datetimes(datetime(1680, 1, 1), datetime(2260, 1, 1))
NOISE = st.text(alphabet="0123456789+-:. TZeE_xXnaNif\t", max_size=34)
STAMPS = st.one_of(
    DAYS.map(str),
    DAYS.map(lambda day: f"{day}+00:00"),
    st.builds(
        "{:%Y-%m-%d}{}{:%H:%M:%S}{}{}".format,
        DAYS,
        st.sampled_from([" ", "T", "t", "  "]),
        DAYS,
        st.from_regex(r"(\.[0-9]{0,11})?", fullmatch=True),
        st.sampled_from(["", "Z", "z", "+00:00", "-05:30", "+0530", "+05", "+24:00", "+05:60", "+5"]),
    ),
    NOISE,
)
SECONDS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers(0, 2**40).map(str),
    st.from_regex(r"[ \t]?[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?[ \t]?", fullmatch=True),
    NOISE,
)
COUNTS = st.one_of(
    st.integers(0, 2**31).map(str),
    st.from_regex(r"[ \t]?[+-]?(0x)?[0-9]{1,4}[ \t]?", fullmatch=True),
    NOISE,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.tuples(STAMPS, COUNTS, COUNTS))
def test_azure_columns_and_single_rows_agree(row):
    check_both_ways(azure.FORMAT, AZURE_HEADER, row)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.tuples(SECONDS, COUNTS, COUNTS))
def test_burstgpt_columns_and_single_rows_agree(row):
    check_both_ways(burstgpt.FORMAT, "Timestamp,Request tokens,Response tokens\n", row)


def check_both_ways(layout, header, row):
    """A row that passes as part of a column passes by itself, with the same values."""
    reader = CsvReader(layout, header.strip().split(","))
    line = ",".join(row).encode()
    columns = reader.columns(line + b"\n")
    if columns is None or not len(columns[0]) or not all_checked(*columns):
        return
    assert tuple(column[0] for column in columns) == checked(*reader.row(line))


# Files that are no traces


def test_missing_column(trace):
    message = refusal(trace, "TIMESTAMP,ContextToken,GeneratedTokens\n2024-05-12 00:00:00,5,6\n", "azure")
    assert "azure.txt, line 1: no column ContextTokens" in message
    assert "TIMESTAMP,ContextToken,GeneratedTokens" in message


@pytest.mark.parametrize("trace_format", ["azure", "burstgpt", "bailian", "mooncake"])
def test_empty_file_pointer_and_missing_file(trace, tmp_path, trace_format):
    assert "the file is empty" in refusal(trace, b"", trace_format)
    pointer = LFS_POINTER_START + b"\noid sha256:00\nsize 96209982\n"
    assert "a Git LFS pointer, not the data" in refusal(trace, pointer, trace_format)
    with pytest.raises(UserError, match=r"absent: cannot be read \(No such file or directory\)"):
        list(TraceFile(tmp_path / "absent", trace_format, 0))


def test_header_without_rows(trace):
    assert "it holds no rows" in refusal(trace, AZURE_HEADER, "azure")
    assert "it holds no rows" in refusal(trace, AZURE_HEADER.strip(), "azure")
    assert "it holds no rows" in refusal(trace, "\n\n", "bailian")


def test_no_valid_row(trace):
    assert "none of its 2 rows is valid" in refusal(trace, BURSTGPT_HEADER + "1,A,5,0,5,L\n" * 2, "burstgpt")
    assert "none of its 1 rows is valid" in refusal(trace, "x\n", "mooncake", 1.0)


def test_another_format(trace):
    assert "no column TIMESTAMP" in refusal(trace, BURSTGPT_HEADER + "1,A,5,1,6,L\n", "azure")
    assert "not a JSON object" in refusal(trace, AZURE_HEADER + "2024-05-12 00:00:00,5,6\n", "bailian")

# ruff: noqa: F811 (fixtures are imported)
"""Reading raw traces: every format with its exact times, and the real files."""

import csv
import hashlib
import json
import time
from datetime import timedelta

import numpy as np
import pytest
from made_traces import (
    AZURE_HEADER,
    BURSTGPT_HEADER,
    EPOCH,
    Read,
    epoch,
    trace,  # noqa: F401
)

from servestudy.traces.reading import TraceFile


def test_azure_2023_naive_stamps_of_seven_digits(trace):
    content = AZURE_HEADER + "2023-11-16 18:17:03.9799609,4808,10\n2023-11-16 18:17:04,3180,8\n"
    assert trace(content, "azure").rows == [
        (epoch("2023-11-16 18:17:03", 979_960), 4808, 10),  # cut, not rounded
        (epoch("2023-11-16 18:17:04"), 3180, 8),
    ]


def test_azure_2024_stamps_with_offset(trace):
    content = AZURE_HEADER + (
        "2024-05-12 00:00:00.000191+00:00,1,2\n2024-05-12 00:00:01+00:00,3,4\n2024-05-12 00:00:01.5Z,5,6\n"
    )
    assert trace(content, "azure").rows == [
        (epoch("2024-05-12 00:00:00", 191), 1, 2),
        (epoch("2024-05-12 00:00:01"), 3, 4),
        (epoch("2024-05-12 00:00:01", 500_000), 5, 6),
    ]


def test_azure_stamps_of_both_kinds_and_of_many_digits_in_one_file(trace):
    content = AZURE_HEADER + (
        "2024-05-12 00:00:00.25+00:00,1,1\n2024-05-12 00:00:01.5,1,1\n2024-05-12 02:00:02.1234569999999+02:00,1,1\n"
    )
    assert trace(content, "azure").time_s.tolist() == [
        epoch("2024-05-12 00:00:00", 250_000),
        epoch("2024-05-12 00:00:01", 500_000),
        epoch("2024-05-12 00:00:02", 123_456),
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_azure_times_do_not_depend_on_the_time_zone(trace, monkeypatch, zone):
    content = AZURE_HEADER + "2023-11-16 18:17:03.9799600,1,1\n\n2023-11-16 18:17:03.9799600+00:00,1,1\n"
    with monkeypatch.context() as here:
        here.setenv("TZ", zone)
        time.tzset()
        read = trace(content, "azure")
    time.tzset()
    assert read.time_s.tolist() == [epoch("2023-11-16 18:17:03", 979_960)] * 2


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("trace_format", ["azure", "burstgpt", "bailian", "mooncake"])
def test_line_ends_byte_order_mark_and_missing_final_newline(trace, trace_format, line_end, mark, final):
    lines = {
        "azure": [AZURE_HEADER.strip(), "1970-01-01 00:00:01,5,6", "1970-01-01 00:00:02.5,7,8"],
        "burstgpt": [BURSTGPT_HEADER.strip(), "1,A,5,6,11,L", "2.5,A,7,8,15,L"],
        "bailian": [
            '{"timestamp": 1, "input_length": 5, "output_length": 6}',
            '{"timestamp": 2.5, "input_length": 7, "output_length": 8}',
        ],
        "mooncake": [
            '{"timestamp": 1000, "input_length": 5, "output_length": 6}',
            '{"timestamp": 2500, "input_length": 7, "output_length": 8}',
        ],
    }[trace_format]
    content = mark + (line_end.join(lines) + line_end * final).encode()
    read = trace(content, trace_format)
    assert read.rows == [(1.0, 5, 6), (2.5, 7, 8)]
    assert read.counts == (2, 2, 0, 0, 0)
    first = 1 if trace_format in ("bailian", "mooncake") else 2
    assert read.line.tolist() == [first, first + 1]
    assert read.trace.sha256 == hashlib.sha256(content).hexdigest()


def test_burstgpt_with_eight_columns(trace):
    content = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "19440110.0,1722ac82-0a46,43,GPT-4,906,446,1352,Conversation log\n"
        "19440161.125,d5983bf9-4b48,2,ChatGPT,36,29,65,Conversation log\n"
    )
    assert trace(content, "burstgpt").rows == [(19440110.0, 906, 446), (19440161.125, 36, 29)]


def test_bailian_seconds_and_ignored_keys(trace):
    content = (
        '{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, '
        '"type": "text", "turn": 2, "hash_ids": [1089, 1090]}\n'
    )
    assert trace(content, "bailian").rows == [(61.114, 521, 132)]


def test_mooncake_milliseconds(trace):
    content = '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46]}\n'
    assert trace(content, "mooncake").rows == [(27482 / 1000, 6955, 52)]


def test_azure_2023_files(shared):
    for split, rows in (("conv", 19_366), ("code", 8_819)):
        path = shared / f"traces/azure_2023/AzureLLMInferenceTrace_{split}.csv"
        read = Read(TraceFile(path, "azure", 0.0))
        with path.open(newline="") as file:
            expected = [
                (epoch(row["TIMESTAMP"][:19], int(row["TIMESTAMP"][20:26])), *map(int, list(row.values())[1:]))
                for row in csv.DictReader(file)
            ]
        assert read.counts == (rows, rows, 0, 0, 0)
        assert read.rows == expected
        assert np.all(read.time_s * 2**22 % 1 == 0)  # the grid of doubles near 1.7e9


def test_burstgpt_files(shared):
    first = Read(TraceFile(shared / "traces/burstgpt/BurstGPT_1_first1000.csv", "burstgpt", 0.0))
    assert first.counts == (999, 888, 111, 0, 0)
    third = Read(TraceFile(shared / "traces/burstgpt/BurstGPT_3_first400.csv", "burstgpt", 0.0))
    assert third.counts == (400, 399, 1, 0, 0)
    assert third.rows[0] == (19440110.0, 906, 446)


def test_mooncake_file(shared):
    path = shared / "traces/mooncake/conversation_trace.jsonl"
    read = Read(TraceFile(path, "mooncake", 0.0))
    assert read.counts == (12_031, 12_031, 0, 0, 0)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert read.time_s.tolist() == [record["timestamp"] / 1000 for record in records]


def golden(shared, window):
    with (shared / f"goldens/windows/{window}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        np.array([kind(row[name]) for row in rows])
        for name, kind in (("arrival_s", float), ("prompt_tokens", int), ("output_tokens", int))
    )


@pytest.mark.parametrize("window", ["azure_llm_2024_stage0_w00", "azure_llm_2024_pilot_v2_w10"])
def test_azure_arrivals_of_published_windows_come_out_exactly(shared, trace, window):
    """Write a window as stamps again, at a moment of that week whose doubles fall as the published ones do."""
    arrival_s, prompt, output = golden(shared, window)
    offsets_us = np.rint(arrival_s * 1e6).astype(np.int64)
    starts_us = 1_715_472_000_000_000 + np.arange(15_625)  # 2^22/10^6 = 2^16/15625: the grid repeats
    fits = [us for us in starts_us if np.array_equal((us + offsets_us) / 1e6 - us / 1e6, arrival_s)]
    assert fits
    stamps = [EPOCH + timedelta(microseconds=int(fits[0] + offset)) for offset in offsets_us]
    lines = [f"{stamp},{p},{o}\n" for stamp, p, o in zip(stamps, prompt, output, strict=True)]
    read = trace(AZURE_HEADER + "".join(lines), "azure")
    assert (read.time_s - read.time_s[0]).tolist() == arrival_s.tolist()
    assert read.prompt_tokens.tolist() == prompt.tolist()
    assert read.output_tokens.tolist() == output.tolist()


@pytest.mark.parametrize("window", ["bailian_qwen_stage0_w00", "bailian_qwen_pilot_v2_w10"])
def test_bailian_arrivals_of_published_windows_come_out_exactly(shared, trace, window):
    arrival_s, prompt, output = golden(shared, window)
    offsets_ms = np.rint(arrival_s * 1e3).astype(np.int64)
    starts_ms = np.arange(2_048_000, 4_096_000 - offsets_ms[-1])  # where doubles lie 2^-41 s apart
    for offset, arrival in zip(offsets_ms, arrival_s, strict=True):
        starts_ms = starts_ms[(starts_ms + offset) / 1e3 - starts_ms / 1e3 == arrival]
    assert len(starts_ms)
    lines = [
        f'{{"timestamp": {(starts_ms[0] + offset) / 1e3}, "input_length": {p}, "output_length": {o}}}\n'
        for offset, p, o in zip(offsets_ms, prompt, output, strict=True)
    ]
    read = trace("".join(lines), "bailian")
    assert (read.time_s - read.time_s[0]).tolist() == arrival_s.tolist()

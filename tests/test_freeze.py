"""Freezing: the windows are the planned rows of the trace, hashed, and nothing half-written stays."""

import csv
import hashlib
import struct
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from servestudy.errors import UserError
from servestudy.tables import read_table
from servestudy.traces.reading import TraceFile
from servestudy.traces.registry import Source, load_sources
from servestudy.traces.synthesize import AZURE_START, azure_lines
from servestudy.windows.descriptors import descriptors
from servestudy.windows.freeze import content_sha256, freeze, merge_indexes
from servestudy.windows.frozen import WINDOW_SCHEMA
from servestudy.windows.sampling import plan_windows

SOURCE = Source(
    id="some_trace",
    title="Some trace",
    dataset="some",
    format="burstgpt",
    columns="",
    version="v1",
    file="trace.csv",
    url=None,
    sha256=None,
    bytes=None,
    rows=None,
    skip_rows=50,
    sampling_seed=3,
    synthetic=True,
    licence="MIT",
    redistribution="yes",
    citation="nobody",
)


@pytest.fixture
def some_trace(tmp_path):
    """4,000 rows, of which every tenth failed; times in file order, two of them backwards."""
    lines = ["Timestamp,Request tokens,Response tokens"]
    for i in range(4_000):
        second = i // 3 if i not in (701, 2403) else i // 3 - 5
        lines.append(f"{second},{i % 97 + 1},{0 if i % 10 == 0 else i % 13 + 1}")
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def frozen(source, path, folder, stage0=3, extension=4, max_bad_share=0.01):
    """Freeze into `folder`; returns the window table as columns, and the index as rows of text."""
    freeze(source, path, folder / "w.parquet", folder / "w.csv", stage0, extension, max_bad_share)
    table = read_table(folder / "w.parquet", WINDOW_SCHEMA)
    with (folder / "w.csv").open(newline="") as file:
        index = list(csv.DictReader(file))
    return {name: table[name].to_numpy() for name in table.column_names}, index


def columns_of(path, trace_format):
    batches = list(TraceFile(path, trace_format, 1.0))
    return [
        np.concatenate([getattr(batch, name) for batch in batches])
        for name in ("time_s", "prompt_tokens", "output_tokens")
    ]


def check_against_trace(source, path, table, index, stage0, extension):
    """Every window holds the planned valid rows of the trace, in file order, and its index row says so."""
    time_s, prompt, output = columns_of(path, source.format)
    plan = plan_windows(source.id, len(time_s), source.skip_rows, source.sampling_seed, stage0, extension)
    assert [row["window_id"] for row in index] == [window.window_id for window in plan]
    assert len(table["source"]) == 200 * len(plan)
    for place, (window, row) in enumerate(zip(plan, index, strict=True)):
        part = slice(200 * place, 200 * place + 200)
        cut = slice(window.start_row, window.start_row + 200)
        assert set(table["window_id"][part]) == {window.window_id}
        assert set(table["window_number"][part]) == {window.number}
        assert table["position"][part].tolist() == list(range(200))
        assert table["source_row"][part].tolist() == list(range(cut.start, cut.stop))
        assert table["time_s"][part].tolist() == time_s[cut].tolist()
        assert table["prompt_tokens"][part].tolist() == prompt[cut].tolist()
        assert table["output_tokens"][part].tolist() == output[cut].tolist()
        assert row["content_sha256"] == content_sha256(time_s[cut], prompt[cut], output[cut])
        assert (int(row["start_row"]), int(row["window_number"])) == (window.start_row, window.number)
        assert float(row["time_s_min"]) == min(time_s[cut])
        assert float(row["time_s_max"]) == max(time_s[cut])
        for name, value in descriptors(time_s[cut], prompt[cut], output[cut]).items():
            assert float(row[name]) == value or (np.isnan(value) and row[name] == "nan")


def test_windows_are_the_planned_valid_rows(some_trace, tmp_path):
    table, index = frozen(SOURCE, some_trace, tmp_path / "out")
    check_against_trace(SOURCE, some_trace, table, index, 3, 4)
    assert set(table["source"]) == {"some_trace"}
    assert {row["valid_rows"] for row in index} == {"3600"}
    assert {row["source_file_sha256"] for row in index} == {hashlib.sha256(some_trace.read_bytes()).hexdigest()}
    first, last = index[0], index[-1]
    assert (first["evidence_class"], last["evidence_class"]) == ("STAGE0_WINDOW", "PILOT_V2_NEW_WINDOW")
    assert (first["sampling_seed"], last["sampling_seed"]) == ("3", "1000003")
    assert (first["source"], first["source_file"], first["skip_rows"]) == ("some_trace", "trace.csv", "50")
    assert (first["request_count"], last["chronology_stratum"]) == ("200", "LATE")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["w.csv", "w.parquet"]


def test_times_that_go_backwards_stay_in_file_order(some_trace, tmp_path):
    table, _ = frozen(SOURCE, some_trace, tmp_path, stage0=9, extension=0)
    assert np.any(np.diff(table["time_s"].reshape(-1, 200), axis=1) < 0)


def test_same_input_same_bytes(some_trace, tmp_path):
    for folder in ("one", "two"):
        frozen(SOURCE, some_trace, tmp_path / folder)
    for name in ("w.parquet", "w.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_content_hash_is_made_as_documented():
    data = struct.pack("<2d2q2q", 1.5, 2.0, 10, 20, 3, 4)
    found = content_sha256(np.array([1.5, 2.0]), np.array([10, 20], np.int32), np.array([3, 4], np.int32))
    assert found == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rows": 3601}, "number of valid rows is 3600, the registry states 3601 for some_trace"),
        ({"sha256": "0" * 64}, "sha256 is .* the registry states 0000"),
        ({"skip_rows": 3500}, "source some_trace: no window of 200 requests fits into its 3600 valid rows"),
        ({"format": "azure"}, "no column TIMESTAMP"),
    ],
)
def test_nothing_stays_of_a_refused_trace(some_trace, tmp_path, changes, reason):
    with pytest.raises(UserError, match=reason):
        frozen(replace(SOURCE, **changes), some_trace, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_nothing_stays_of_a_trace_with_too_many_malformed_rows(some_trace, tmp_path):
    some_trace.write_text(some_trace.read_text() + "oops\n" * 50)
    with pytest.raises(UserError, match=r"50 of 4050 rows \(1.23 %\) are malformed.*line 4002: 'oops'"):
        frozen(SOURCE, some_trace, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_is_said(some_trace, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: open("/dev/full", "r+b"))  # noqa: SIM115
    with pytest.raises(UserError, match=r"out: the disk is full; freezing needs 16 bytes for each row"):
        frozen(SOURCE, some_trace, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_indexes_are_merged_in_the_given_order(some_trace, tmp_path):
    other = replace(SOURCE, id="other_trace", sampling_seed=9)
    _, first = frozen(SOURCE, some_trace, tmp_path / "first")
    _, second = frozen(other, some_trace, tmp_path / "second")
    merge_indexes([tmp_path / "second/w.csv", tmp_path / "first/w.csv"], tmp_path / "index.csv")
    with (tmp_path / "index.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == second + first


def test_indexes_of_other_columns_are_not_merged(some_trace, tmp_path):
    frozen(SOURCE, some_trace, tmp_path)
    (tmp_path / "old.csv").write_text("window_id,start\nx,1\n")
    with pytest.raises(UserError, match=r"old\.csv: its columns differ from those of .*w\.csv"):
        merge_indexes([tmp_path / "w.csv", tmp_path / "old.csv"], tmp_path / "index.csv")
    assert not (tmp_path / "index.csv").exists()


@pytest.mark.parametrize("name", ["azure_2023_conv", "azure_2023_code", "mooncake_conversation"])
def test_real_traces(project, shared, tmp_path, name):
    source = load_sources(project / "config/sources.tsv")[name]
    path = source.mirror_path(shared / "traces")
    table, index = frozen(source, path, tmp_path, 10, 30, 0.0)
    check_against_trace(source, path, table, index, 10, 30)
    assert len(index) >= 30


def test_a_published_azure_window_survives_freezing(shared, tmp_path):
    """A file of one published window of Azure 2024, frozen, gives its arrivals bit for bit."""
    with (shared / "goldens/windows/azure_llm_2024_stage0_w00.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    arrival_s = np.array([float(row["arrival_s"]) for row in rows])
    offsets_us = np.rint(arrival_s * 1e6).astype(np.int64)
    day_us = 1_715_472_000_000_000
    start_us = next(
        us for us in range(day_us, day_us + 15_625) if np.array_equal((us + offsets_us) / 1e6 - us / 1e6, arrival_s)
    )
    tokens = ([int(row[name]) for row in rows] for name in ("prompt_tokens", "output_tokens"))
    after_start_us = start_us - (AZURE_START - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) + offsets_us
    path = tmp_path / "azure.csv"
    path.write_text("".join(azure_lines(after_start_us, None, *tokens)))
    table, _ = frozen(replace(SOURCE, format="azure", skip_rows=0), path, tmp_path / "out")
    assert (table["time_s"] - table["time_s"].min()).tolist() == arrival_s.tolist()

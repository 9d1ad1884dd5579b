"""Any CSV or JSON lines as a trace, by a column map: reading, mistakes, and from the registry to frozen windows."""

import re

import pyarrow.parquet as pq
import pytest
from made_traces import Read, epoch, refusal

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.files import sha256_of
from servestudy.traces.column_map import EXAMPLE, ColumnMap, parse_columns
from servestudy.traces.reading import FORMATS, MAPPED, TraceFile
from servestudy.traces.registry import COLUMNS, load_sources


@pytest.fixture
def mapped(tmp_path):
    """Write a file and read it with a column map."""

    def read(content, trace_format, columns, max_bad_share=0.0):
        path = tmp_path / f"trace.{trace_format}"
        path.write_text(content)
        return Read(TraceFile(path, trace_format, max_bad_share, columns))

    return read


def test_names_units_and_blanks():
    assert parse_columns("time=t;prompt=p;output=o") == ColumnMap("t", "p", "o", "s")
    assert parse_columns(" output = out tokens ; unit=ns;time=t; prompt=p") == ColumnMap("t", "p", "out tokens", "ns")
    assert parse_columns(EXAMPLE).unit == "ms"
    assert not MAPPED.keys() & FORMATS.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time=t;prompt=p", "output missing"),
        ("unit=s", "time and prompt and output missing"),
        ("time=t;prompt=p;output=o;size=3", "'size' is none of time, prompt, output, unit"),
        ("time=t;time=u;prompt=p;output=o", "time is given twice"),
        ("time=t;prompt=p;output=", "'output=' is not NAME=COLUMN"),
        ("time=t;prompt=p;output=o;", "'' is not NAME=COLUMN"),
        ("time=t=u;prompt=p;output=o", "'time=t=u' is not NAME=COLUMN"),
        ("time=t;prompt=p;output=p", "two of time, prompt and output have the same column"),
        ("time=t;prompt=p;output=o;unit=min", "unit is 'min', must be s, ms, us, ns or stamp"),
    ],
)
def test_a_wrong_map_says_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_columns(text)


@pytest.mark.parametrize(
    ("unit", "times", "seconds"),
    [
        ("s", ["0.5", "1e1"], [0.5, 10.0]),
        ("ms", ["500", "1234.5"], [0.5, 1.2345]),
        ("us", ["500000", "1234567"], [0.5, 1.234567]),
        ("ns", ["500000000", "1234567890"], [0.5, 1.23456789]),
    ],
)
def test_units_are_the_same_in_both_formats(mapped, unit, times, seconds):
    columns = f"time=at; unit={unit}; prompt=input tokens; output=out"
    content = "id,out,at,input tokens\n" + "".join(f"x,{7 + i},{t},{100 + i}\n" for i, t in enumerate(times))
    rows = [(seconds[0], 100, 7), (seconds[1], 101, 8)]
    assert mapped(content, "csv", columns).rows == rows
    lines = "".join(f'{{"input tokens": {100 + i}, "at": {t}, "out": {7 + i}}}\n' for i, t in enumerate(times))
    assert mapped(lines, "jsonl", columns).rows == rows


def test_stamps_in_both_formats(mapped):
    columns = "time=at; unit=stamp; prompt=p; output=o"
    rows = [(epoch("2026-01-05 10:00:00", 250_000), 5, 6), (epoch("2026-01-05 10:00:01"), 7, 8)]
    content = "at,p,o\n2026-01-05T10:00:00.250000,5,6\n2026-01-05T10:00:01.000000,7,8\n"
    assert mapped(content, "csv", columns).rows == rows
    lines = '{"at": "2026-01-05T10:00:00.25Z", "p": 5, "o": 6}\n{"at": "2026-01-05T11:00:01+01:00", "p": 7, "o": 8}\n'
    assert mapped(lines, "jsonl", columns).rows == rows


def test_block_and_single_rows_agree(mapped):
    """A malformed row makes its block be read row by row: the good rows must not change."""
    columns = "time=at; unit=us; prompt=p; output=o"
    good = "".join(f"{i * 333_333_333},{i + 1},{i + 2}\n" for i in range(99))
    as_block = mapped("at,p,o\n" + good, "csv", columns).rows
    one_by_one = mapped("at,p,o\n" + good + "soon,1,1\n", "csv", columns, 0.02)
    assert one_by_one.rows == as_block
    assert one_by_one.trace.first_malformed[0].reason == "at is not a number"


@pytest.mark.parametrize(
    ("trace_format", "line", "reason"),
    [
        ("jsonl", '{"at": "soon", "p": 1, "o": 1}', "at is not a number"),
        ("jsonl", '{"at": 1, "p": 1.5, "o": 1}', "p is not a whole number"),
        ("jsonl", '{"at": 1, "p": 1}', "no o"),
        ("csv", "1,1,", "o is not a whole number"),
        ("csv", '"1",1,1', "at is not a number"),
        ("csv", "nan,1,1", "at is not a number"),
    ],
)
def test_malformed_rows_name_the_column_of_the_map(mapped, trace_format, line, reason):
    good = "2,1,1\n" if trace_format == "csv" else '{"at": 2, "p": 1, "o": 1}\n'
    header = "at,p,o\n" if trace_format == "csv" else ""
    read = mapped(header + good + line + "\n", trace_format, "time=at;prompt=p;output=o", 0.5)
    assert (len(read.rows), read.trace.first_malformed[0].reason) == (1, reason)


@pytest.mark.parametrize(("trace_format", "line"), [("csv", "noon,1,1"), ("jsonl", '{"at": "noon", "p": 1, "o": 1}')])
def test_a_wrong_stamp_names_the_column_of_the_map(mapped, trace_format, line):
    good = "2026-01-05 10:00:00,1,1\n" if trace_format == "csv" else '{"at": "2026-01-05 10:00", "p": 1, "o": 1}\n'
    good = good.replace('10:00"', '10:00:00"')
    header = "at,p,o\n" if trace_format == "csv" else ""
    read = mapped(header + good + line + "\n", trace_format, "time=at;prompt=p;output=o;unit=stamp", 0.5)
    assert (len(read.rows), read.trace.first_malformed[0].reason) == (1, "at is not a date and time")


def test_a_missing_column_is_named(mapped):
    message = refusal(mapped, "at,p\n1,1\n", "csv", "time=at;prompt=p;output=completion")
    assert "no column completion in the header 'at,p'" in message


ROW = {
    "id": "mine",
    "title": "My trace",
    "dataset": "mine",
    "format": "csv",
    "columns": "time=at; unit=ms; prompt=in; output=out",
    "version": "v1",
    "file": "mine.csv",
    "url": "",
    "sha256": "",
    "bytes": "",
    "rows": "",
    "skip_rows": "0",
    "sampling_seed": "5",
    "synthetic": "no",
    "licence": "MIT",
    "redistribution": "yes",
    "citation": "nobody",
}


def write_registry(path, **changed):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\t".join(COLUMNS) + "\n" + "\t".join((ROW | changed).values()) + "\n")
    return path


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"columns": ""}, 'columns: found ""; allowed: as time=created_at; unit=ms; prompt='),
        ({"format": "azure"}, "allowed: empty but for the formats csv and jsonl"),
        ({"columns": "time=at"}, 'columns: found "time=at": prompt and output missing; allowed: as time=created_at'),
    ],
)
def test_the_registry_checks_the_map(tmp_path, changed, message):
    path = write_registry(tmp_path / "sources.tsv", sha256="0" * 64, bytes="10", **changed)
    with pytest.raises(UserError) as caught:
        load_sources(path)
    assert f"{path}, line 2: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("trace_format", ["csv", "jsonl"])
def test_from_the_registry_to_windows(tmp_path, monkeypatch, trace_format):
    """What docs/ADD_A_TRACE.md describes: put the file into the mirror, name it, fetch, freeze."""
    monkeypatch.chdir(tmp_path)
    rows = [(1_000 * i + i % 7, 100 + i % 50, 1 + i % 90) for i in range(900)]
    line = "{},{},{}\n" if trace_format == "csv" else '{{"at": {}, "in": {}, "out": {}}}\n'
    file = tmp_path / f"mirror/mine/mine.{trace_format}"
    file.parent.mkdir(parents=True)
    file.write_text(("at,in,out\n" if trace_format == "csv" else "") + "".join(line.format(*row) for row in rows))
    known = {"sha256": sha256_of(file), "bytes": str(file.stat().st_size), "file": file.name, "format": trace_format}
    write_registry(tmp_path / "config/sources.tsv", **known)
    raw = f"data/raw/mine/v1/{file.name}"
    assert main(["fetch", "--source", "mine", "--mirror", "mirror", "--out", raw]) == 0
    windows = ["--stage0-windows", "1", "--extension-windows", "1", "--max-bad-share", "0"]
    out = ["--out", "windows/mine.parquet", "--index", "windows/mine.csv"]
    assert main(["freeze", "--source", "mine", "--trace", raw, *windows, *out]) == 0
    table = pq.read_table("windows/mine.parquet").to_pydict()
    assert len(table["time_s"]) == 400
    columns = (table[name] for name in ("source_row", "time_s", "prompt_tokens", "output_tokens"))
    for row, *values in zip(*columns, strict=True):
        assert values == [rows[row][0] / 1000, *rows[row][1:]]

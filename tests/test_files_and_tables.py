"""Atomic files, declared tables, progress lines, manifest, and the command line's way with errors."""

import json

import pyarrow as pa
import pytest

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.files import atomic_path, sha256_of
from servestudy.manifest import write_manifest
from servestudy.progress import progress, progress_meter
from servestudy.tables import column, read_table, write_table

SCHEMA = pa.schema([column("name", pa.string(), "a name"), column("size_b", pa.int64(), "bytes")])


def test_a_failed_write_leaves_nothing(tmp_path):
    target = tmp_path / "deep" / "file.txt"

    def write_half_a_file():
        with atomic_path(target) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half_a_file()
    assert not list(target.parent.iterdir())


def test_an_old_file_stays_until_the_new_one_is_complete(tmp_path):
    target = tmp_path / "file.txt"
    target.write_text("old")
    with atomic_path(target) as part:
        part.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_same_table_same_bytes(tmp_path):
    table = pa.table({"name": ["a", "b"], "size_b": [1, 2]})
    for name in ("one", "two"):
        write_table(table, SCHEMA, tmp_path / name)
    assert sha256_of(tmp_path / "one") == sha256_of(tmp_path / "two")
    assert read_table(tmp_path / "one", SCHEMA).to_pydict() == table.to_pydict()
    assert read_table(tmp_path / "one", SCHEMA).schema.field("size_b").metadata == {b"meaning": b"bytes"}


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"name": ["a"]}),
        pa.table({"size_b": [1], "name": ["a"]}),
        pa.table({"name": ["a"], "size_b": pa.array([None], pa.int64())}),
        pa.table({"name": ["a"], "size_b": ["many"]}),
    ],
)
def test_a_table_that_breaks_its_schema_is_not_written(tmp_path, table):
    with pytest.raises(ValueError):  # noqa: PT011 - the text differs, the refusal counts
        write_table(table, SCHEMA, tmp_path / "t")
    assert not list(tmp_path.iterdir())


def test_unreadable_tables_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="not found; check the path"):
        read_table(tmp_path / "none", SCHEMA)
    (tmp_path / "cut").write_bytes(b"PAR1 half a file")
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read_table(tmp_path / "cut", SCHEMA)
    other = pa.schema([column("name", pa.string(), "a name")])
    write_table(pa.table({"name": ["a"]}), other, tmp_path / "other")
    with pytest.raises(UserError, match="written by another version"):
        read_table(tmp_path / "other", SCHEMA)


def test_progress_is_a_line_each_five_percent(capsys):
    assert list(progress(range(200), 200, "things")) == list(range(200))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 20
    assert lines[0].startswith("things: 5 %")
    assert lines[-1].startswith("things: 100 %")


def test_progress_without_a_total_says_nothing_in_the_first_seconds(capsys):
    with progress_meter(0, "bytes", "B") as advance:
        advance(10)
    assert capsys.readouterr().err == ""


def test_manifest(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    write_manifest([tmp_path / "b", tmp_path / "a"], tmp_path / "manifest.json")
    hashes = json.loads((tmp_path / "manifest.json").read_text())
    assert list(hashes) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert hashes[str(tmp_path / "a")] == sha256_of(tmp_path / "a")
    with pytest.raises(UserError, match="not found"):
        write_manifest([tmp_path / "c"], tmp_path / "manifest.json")


def test_the_command_line_tells_mistakes_in_plain_words(capsys, monkeypatch, project):
    monkeypatch.chdir(project)
    ask = ["cell", "--run", "none", "--window", "0", "--region", "LOW"]
    assert main([*ask, "--source", "azure_like", "--scheduler", "fifo"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("servestudy: results/none/windows/azure_like.parquet: not found")
    assert main([*ask, "--source", "x", "--scheduler", "fifo"]) == 1
    assert "source 'x' is unknown; known are" in capsys.readouterr().err
    assert main([*ask, "--source", "azure_like", "--scheduler", "lifo"]) == 1
    assert "scheduler 'lifo' is unknown" in capsys.readouterr().err


def test_a_folder_for_a_file_is_told_in_plain_words(capsys, tmp_path):
    window = tmp_path / "w.csv"
    window.write_text("index,arrival_s,prompt_tokens,output_tokens\n0,0,5,5\n")
    (tmp_path / "folder").mkdir()
    assert (
        main(["panel", str(window), "--window-number", "0", "--lambda-ref", "1", "--out", str(tmp_path / "folder")])
        == 1
    )
    assert "Is a directory" in capsys.readouterr().err
    assert main(["panel", str(tmp_path / "folder"), "--window-number", "0", "--out", str(tmp_path / "o")]) == 1
    assert "folder: Is a directory; give a CSV" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "w.csv"]


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for name in ("cell", "panel", "fetch", "freeze", "calibrate", "simulate", "statistics", "figure", "table"):
        assert name in text

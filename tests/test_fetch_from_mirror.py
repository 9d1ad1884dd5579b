# ruff: noqa: F811 (fixtures are imported)
"""Fetching raw files: the mirror before the address, sources without one, full disks."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_server import CONTENT, POINTER, destination, quick_and_direct, refusal, server, source  # noqa: F401

from servestudy.errors import UserError
from servestudy.traces.fetch import fetch
from servestudy.traces.registry import load_sources


def test_the_mirror_comes_before_the_address(source, destination, server, tmp_path):
    copy = source.mirror_path(tmp_path / "mirror")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT)
    assert fetch(source, destination, tmp_path / "mirror") == str(copy)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == []


def test_a_mirror_without_the_file_falls_back_to_the_address(source, destination, server, tmp_path):
    (tmp_path / "mirror").mkdir()
    assert fetch(source, destination, tmp_path / "mirror") == server.url


@pytest.mark.parametrize(
    ("content", "reason"), [(CONTENT[:-1] + b"x", "sha256"), (CONTENT[:9], "9 bytes"), (POINTER, "LFS")]
)
def test_a_wrong_file_in_the_mirror_stops(source, destination, server, tmp_path, content, reason):
    copy = source.mirror_path(tmp_path / "mirror")
    copy.parent.mkdir(parents=True)
    copy.write_bytes(content)
    message = refusal(source, destination, tmp_path / "mirror")
    assert str(copy) in message
    assert reason in message
    assert server.ranges == []


def test_a_mirror_folder_that_is_not_there(source, destination, tmp_path):
    with pytest.raises(UserError, match=r"nowhere: no such mirror folder"):
        fetch(source, destination, tmp_path / "nowhere")


def test_neither_in_the_mirror_nor_an_address(source, destination, tmp_path):
    (tmp_path / "mirror").mkdir()
    message = refusal(replace(source, url=None), destination, tmp_path / "mirror")
    assert "no address is known" in message
    assert "some/trace.csv" in message


def test_synthetic_sources_are_not_fetched(source, destination):
    with pytest.raises(UserError, match="some_trace is a synthetic source"):
        fetch(replace(source, synthetic=True), destination)


def test_a_disk_that_is_too_small_is_said_before_the_download(source, destination, server, monkeypatch):
    usage = shutil.disk_usage(Path.cwd())._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    message = refusal(source, destination)
    assert "the disk is full (1048576 bytes are needed, 1000 are free" in message
    assert server.ranges == []


def test_a_disk_that_fills_up_is_said_at_once(source, destination, server, monkeypatch):
    original = Path.open

    def open_full(path, mode="r", *arguments, **options):
        file = original(path, mode, *arguments, **options)
        return FullDisk(file) if "w" in mode else file

    monkeypatch.setattr(Path, "open", open_full)
    assert "the disk is full; free some space" in refusal(source, destination)
    assert len(server.ranges) == 1


class FullDisk:
    """A file that cannot grow."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def read(self, size):
        return self.file.read(size)

    def write(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_the_real_mirror(project, shared, tmp_path):
    source = load_sources(project / "config/sources.tsv")["azure_2023_code"]
    destination = source.raw_path(tmp_path)
    fetch(source, destination, shared / "traces")
    assert destination.stat().st_size == source.bytes

# ruff: noqa: F811 (fixtures are imported)
"""Fetching raw files from their address: resuming, and one clear sentence for each failure."""

import hashlib
import socket
from dataclasses import replace

import pytest
from made_server import CONTENT, POINTER, destination, part_of, quick_and_direct, refusal, server, source  # noqa: F401

from servestudy.errors import UserError
from servestudy.traces import fetch as fetching
from servestudy.traces.fetch import fetch


def test_download(source, destination, server):
    assert fetch(source, destination) == server.url
    assert destination.read_bytes() == CONTENT
    assert [path.name for path in destination.parent.iterdir()] == ["trace.csv"]


def test_a_file_that_is_there_is_checked_and_kept(source, destination, server):
    fetch(source, destination)
    assert fetch(source, destination) == "already there"
    assert len(server.ranges) == 1
    destination.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(UserError, match=r"trace\.csv: its sha256 is .* the registry states .*; delete it"):
        fetch(source, destination)
    assert destination.read_bytes() == CONTENT[:-1] + b"x"


def test_a_cut_download_is_resumed_in_the_same_call(source, destination, server):
    server.cut_after = [300_000, 200_000]
    fetch(source, destination)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-", "bytes=500000-"]


def test_a_cut_download_is_resumed_by_the_next_call(source, destination, server, monkeypatch):
    monkeypatch.setattr(fetching, "ATTEMPTS", 1)
    server.cut_after = [300_000]
    message = refusal(source, destination)
    assert "cut after 300000 of 1048576 bytes" in message
    assert "the 300000 bytes so far are kept" in message
    assert part_of(destination).read_bytes() == CONTENT[:300_000]

    fetch(source, destination)
    assert server.ranges == [None, "bytes=300000-"]
    assert destination.read_bytes() == CONTENT
    assert not part_of(destination).exists()


def test_a_cut_chunked_download_is_resumed(source, destination, server):
    server.chunked = True
    server.cut_after = [300_000]
    fetch(source, destination)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={300_000 // fetching.CHUNK_BYTES * fetching.CHUNK_BYTES}-"]


def test_a_server_that_ignores_range_starts_over(source, destination, server):
    server.ignores_range = True
    server.cut_after = [300_000]
    fetch(source, destination)
    assert server.ranges == [None, "bytes=300000-"]
    assert destination.read_bytes() == CONTENT


def test_a_wrong_content_range_starts_over(source, destination, server):
    server.wrong_content_range = True
    server.cut_after = [300_000]
    fetch(source, destination)
    assert server.ranges == [None, "bytes=300000-", None]
    assert destination.read_bytes() == CONTENT


def test_a_complete_part_only_gets_its_name(source, destination, server):
    part_of(destination).parent.mkdir(parents=True)
    part_of(destination).write_bytes(CONTENT)
    fetch(source, destination)
    assert destination.read_bytes() == CONTENT
    assert server.ranges == []


def test_a_part_longer_than_the_file_is_thrown_away(source, destination, server):
    part_of(destination).parent.mkdir(parents=True)
    part_of(destination).write_bytes(CONTENT + b"more")
    fetch(source, destination)
    assert server.ranges == [None]
    assert destination.read_bytes() == CONTENT


def test_a_part_that_the_server_cannot_continue_starts_over(source, destination, server):
    server.content = CONTENT[:1000]
    part_of(destination).parent.mkdir(parents=True)
    part_of(destination).write_bytes(CONTENT[:2000])
    message = refusal(source, destination)
    assert server.ranges == ["bytes=2000-", None]
    assert "it has 1000 bytes, the registry states 1048576" in message


def test_a_part_of_another_file_is_found_by_its_hash(source, destination, server):
    part_of(destination).parent.mkdir(parents=True)
    part_of(destination).write_bytes(b"x" * 1000)
    assert "sha256" in refusal(source, destination)
    assert not part_of(destination).exists()
    fetch(source, destination)
    assert destination.read_bytes() == CONTENT


def test_not_found(source, destination, server):
    server.statuses = [404]
    message = refusal(source, destination)
    assert "HTTP 404" in message
    assert source.url in message
    assert "some/trace.csv" in message  # the place in a mirror
    assert len(server.ranges) == 1  # another attempt would not help
    assert not part_of(destination).exists()


def test_a_busy_server_is_asked_again(source, destination, server):
    server.statuses = [503, 429]
    fetch(source, destination)
    assert len(server.ranges) == 3


def test_a_server_that_stays_busy(source, destination, server):
    server.statuses = [503] * fetching.ATTEMPTS
    message = refusal(source, destination)
    assert "HTTP 503" in message
    assert "check the network" in message
    assert len(server.ranges) == fetching.ATTEMPTS


def test_connection_refused(source, destination):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    message = refusal(replace(source, url=f"http://127.0.0.1:{port}/trace.csv"), destination)
    assert "refused" in message
    assert "check the network, or put the file at" in message


def test_no_network(source, destination, monkeypatch):
    def no_names(*arguments, **options):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    message = refusal(replace(source, url="https://trace.invalid/trace.csv"), destination)
    assert "name resolution" in message
    assert "check the network" in message


def test_wrong_hash(source, destination, server):
    server.content = CONTENT[:-1] + b"x"
    message = refusal(source, destination)
    assert f"its sha256 is {hashlib.sha256(server.content).hexdigest()}" in message
    assert f"the registry states {source.sha256}" in message
    assert not part_of(destination).exists()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [1000, len(CONTENT) + 1000])
def test_wrong_size(source, destination, server, size, chunked):
    server.content = (CONTENT * 2)[:size]
    server.chunked = chunked
    message = refusal(source, destination)
    assert "bytes, the registry states 1048576" in message
    assert not part_of(destination).exists()


@pytest.mark.parametrize("chunked", [False, True])
def test_lfs_pointer_from_the_server(source, destination, server, chunked):
    server.content = POINTER
    server.chunked = chunked
    assert "Git LFS pointer" in refusal(source, destination)
    assert not part_of(destination).exists()

"""Fetching raw files: resolution order, resuming, and one clear sentence for each failure."""

import errno
import hashlib
import shutil
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from servestudy.errors import UserError
from servestudy.traces import LFS_POINTER_START
from servestudy.traces import fetch as fetching
from servestudy.traces.fetch import fetch
from servestudy.traces.registry import Source, load_sources

CONTENT = bytes(range(256)) * 4096  # 1 MiB
POINTER = LFS_POINTER_START + b"\noid sha256:" + b"0" * 64 + b"\nsize 1048576\n"


class Server(ThreadingHTTPServer):
    """Serves `content` at any path; the tests set how it misbehaves and read what was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.statuses: list[int] = []  # answers to give first, instead of the content
        self.cut_after: list[int] = []  # bytes to send of each answer, then the connection closes
        self.ignores_range = False
        self.wrong_content_range = False
        self.chunked = False
        self.ranges: list[str | None] = []  # the Range header of each request

    def handle_error(self, request, client_address) -> None:
        """Say nothing: a client that stops reading a file that is too long is part of the tests."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/trace.csv"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers["Range"]
        server.ranges.append(asked)
        self.close_connection = True
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        body, status = server.content, 200
        if asked and not server.ignores_range:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
            body, status = server.content[start:], 206
            stated = 0 if server.wrong_content_range else start
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {stated}-{len(server.content) - 1}/{len(server.content)}")
        if server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut_after.pop(0)] if server.cut_after else body)


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def quick_and_direct(monkeypatch):
    """No pauses between attempts, and no proxy on the way to the loopback server."""
    monkeypatch.setattr(fetching, "FIRST_PAUSE_S", 0.0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def source(server) -> Source:
    return Source(
        id="some_trace",
        title="Some trace",
        dataset="some",
        format="azure",
        version="v1",
        file="trace.csv",
        url=server.url,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        bytes=len(CONTENT),
        rows=None,
        skip_rows=0,
        sampling_seed=1,
        synthetic=False,
        licence="MIT",
        redistribution="yes",
        citation="nobody",
    )


@pytest.fixture
def destination(source, tmp_path) -> Path:
    return source.raw_path(tmp_path / "raw")


def part_of(destination: Path) -> Path:
    return destination.with_name(destination.name + ".part")


def refusal(source, destination, mirror=None) -> str:
    with pytest.raises(UserError) as caught:
        fetch(source, destination, mirror)
    assert not destination.exists()
    message = str(caught.value)
    assert source.file in message
    assert "\n" not in message
    return message


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

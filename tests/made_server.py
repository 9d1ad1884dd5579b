"""A server that misbehaves as it is told, and a source whose file it serves."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from servestudy.errors import UserError
from servestudy.traces import LFS_POINTER_START
from servestudy.traces import fetch as fetching
from servestudy.traces.fetch import fetch
from servestudy.traces.registry import Source

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
        columns="",
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

"""Getting a source's raw file: already there, from a mirror folder, or from its address."""

import errno
import hashlib
import http.client
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from servestudy.errors import UserError
from servestudy.files import atomic_path, sha256_of
from servestudy.progress import progress_meter
from servestudy.traces import LFS_POINTER_START
from servestudy.traces.registry import Source

ATTEMPTS = 4
FIRST_PAUSE_S = 1.0
"""Pause before the second attempt; it doubles with each further one."""
TIMEOUT_S = 30.0
CHUNK_BYTES = 1 << 16
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}
"""Of opening or writing the `.part`; another attempt does not help. Any other OSError is the network's."""


class _CutError(Exception):
    """The connection ended before the file did, or the server asks to come back: worth another attempt."""


def fetch(source: Source, destination: Path | str, mirror: Path | str | None = None) -> str:
    """Put the source's raw file at `destination`, checked by size and sha256; returns where it came from.

    Looked for in this order: `destination` itself, `<mirror>/<dataset>/<file>`, the source's url. A download
    goes to `<destination>.part` and continues from what lies there; the name changes once the hash is right.
    A cut download leaves the `.part` for the next call, a wrong one is deleted.
    Raises UserError, one sentence with the file, the reason and the way out, for anything that fails.
    """
    destination = Path(destination)
    if source.synthetic:
        raise UserError(f"{source.id} is a synthetic source: it is made by `servestudy synthesize`, not fetched")
    if destination.exists():
        _check(source, destination, way_out="delete it and run again")
        return "already there"
    if mirror is not None:
        if not Path(mirror).is_dir():
            raise UserError(f"{mirror}: no such mirror folder (traces.mirror or $SERVESTUDY_TRACE_MIRROR)")
        copy = source.mirror_path(mirror)
        if copy.exists():
            _copy(source, copy, destination)
            return str(copy)
    if not source.url:
        raise UserError(f"{source.file}: no address is known to download it from; {_by_hand(source, destination)}")
    _download(source, destination)
    return source.url


def _copy(source: Source, copy: Path, destination: Path) -> None:
    _check(source, copy, way_out="replace it in the mirror, or take the mirror out of the configuration")
    _need_space(source.bytes, destination)
    with atomic_path(destination) as part:
        try:
            shutil.copyfile(copy, part)
        except OSError as error:
            raise _disk_error(error, destination) from None


def _check(source: Source, path: Path, way_out: str) -> None:
    """Raise UserError unless the file is the one that the registry describes."""
    if problem := _problem(source, path):
        raise UserError(f"{path}: {problem}; {way_out}")


def _problem(source: Source, path: Path, sha256: str | None = None) -> str | None:
    """What is wrong with a complete file, or None."""
    with path.open("rb") as file:
        if file.read(len(LFS_POINTER_START)) == LFS_POINTER_START:
            return "it is a Git LFS pointer, not the data (`git lfs pull` in its repository brings the data)"
    size = path.stat().st_size
    if size != source.bytes:
        return f"it has {size} bytes, the registry states {source.bytes}"
    found = sha256 or sha256_of(path)
    if found != source.sha256:
        return f"its sha256 is {found}, the registry states {source.sha256}"
    return None


def _download(source: Source, destination: Path) -> None:
    part = destination.with_name(destination.name + ".part")
    _need_space(source.bytes - (part.stat().st_size if part.exists() else 0), destination)
    pause_s = FIRST_PAUSE_S
    for attempt in range(1, ATTEMPTS + 1):
        try:
            digest = _continue_download(source, part)
            break
        except urllib.error.HTTPError as error:
            raise UserError(
                f"{source.file}: {source.url} answers HTTP {error.code} {error.reason}; {_by_hand(source, destination)}"
            ) from None
        except (_CutError, http.client.HTTPException, OSError) as error:
            if getattr(error, "errno", None) in DISK_ERRORS:
                raise _disk_error(error, destination) from None
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
            if attempt == ATTEMPTS:
                so_far = part.stat().st_size if part.exists() else 0
                kept = f"the {so_far} bytes so far are kept and " if so_far else ""
                raise UserError(
                    f"{source.file}: the download from {source.url} failed ({reason}); {kept}"
                    f"the next run tries again: check the network, or {_by_hand(source, destination)}"
                ) from None
            print(f"{source.file}: {reason}; trying again in {pause_s:g} s", file=sys.stderr, flush=True)
            time.sleep(pause_s)
            pause_s *= 2
    if problem := _problem(source, part, digest):
        part.unlink()
        raise UserError(
            f"{source.file}: what {source.url} sends is not the registered file: {problem}; "
            f"it was deleted; {_by_hand(source, destination)}"
        )
    os.replace(part, destination)


def _continue_download(source: Source, part: Path) -> str:
    """Fetch what `part` still lacks; returns the sha256 of the whole. One attempt."""
    digest = hashlib.sha256()
    done = part.stat().st_size if part.exists() else 0
    if done >= source.bytes:
        if done == source.bytes:  # complete, but killed before it got its name
            return sha256_of(part)
        done = 0
    response, done = _open(source, done)
    with (
        response,
        part.open("r+b" if done else "w+b") as file,
        progress_meter(source.bytes, f"download {source.file}", "B") as advance,
    ):
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            advance(len(chunk))
        while chunk := response.read(CHUNK_BYTES):
            file.write(chunk)
            digest.update(chunk)
            advance(len(chunk))
            done += len(chunk)
            if done > source.bytes:
                break  # not the registered file: the check of the size says so
        whole = response.chunked or response.length == 0  # a cut in chunks raises IncompleteRead
    if done < source.bytes and not whole:
        raise _CutError(f"it was cut after {done} of {source.bytes} bytes")
    return digest.hexdigest()


def _open(source: Source, done: int) -> tuple[http.client.HTTPResponse, int]:
    """Ask for the bytes from `done` on; returns the response and the position at which it really begins."""
    headers = {"User-Agent": "servestudy", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(source.url, headers=headers), timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and done:  # the server's file is shorter than our part: start over
            return _open(source, 0)
        if error.code == 429 or error.code >= 500:
            raise _CutError(f"the server answers HTTP {error.code} {error.reason}") from None
        raise
    if not done or response.status != 206:
        return response, 0  # a server that ignores Range sends the whole file
    if response.headers.get("Content-Range") != f"bytes {done}-{source.bytes - 1}/{source.bytes}":
        response.close()  # another range, or another file, than ours
        return _open(source, 0)
    return response, done


def _need_space(needed: int, destination: Path) -> None:
    folder = destination.parent
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"{destination}: the disk is full ({needed} bytes are needed, {free} are free in {folder}); "
            "free some space and run again"
        )


def _disk_error(error: OSError, destination: Path) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(f"{destination}: the disk is full; free some space and run again")
    return UserError(f"{destination}: cannot be written ({error.strerror or error}); mend that and run again")


def _by_hand(source: Source, destination: Path) -> str:
    return (
        f"put the file at {destination}, or into a mirror folder as {source.dataset}/{source.file} "
        "(traces.mirror or $SERVESTUDY_TRACE_MIRROR)"
    )

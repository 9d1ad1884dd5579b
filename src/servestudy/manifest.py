"""What a run made: the content hash of every output."""

import json
from collections.abc import Iterable
from pathlib import Path

from servestudy.errors import UserError
from servestudy.files import atomic_path, sha256_of


def write_manifest(files: Iterable[Path | str], out: Path | str) -> None:
    """Write a JSON object: path -> sha256, sorted by path. Raises UserError if a file is missing."""
    try:
        hashes = {Path(path).as_posix(): sha256_of(path) for path in files}
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: not found; make it with snakemake first (README.md)") from None
    with atomic_path(out) as part:
        part.write_text(json.dumps(dict(sorted(hashes.items())), indent=1) + "\n", encoding="utf-8")

"""The files of a release with size and hash, as its metadata list them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servestudy.files import atomic_path, sha256_of

MEDIA_TYPES = {
    ".parquet": "application/x-parquet",
    ".csv": "text/csv",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".cff": "application/yaml",
}
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Listed:
    """A file below the release's folder."""

    path: str
    bytes: int
    sha256: str
    text: str

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES.get(Path(self.path).suffix, "text/plain")


def list_files(folder: Path, describe: Callable[[str], str]) -> list[Listed]:
    """All files below the folder, by path, each with what `describe` says about its path."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return [Listed(path, (folder / path).stat().st_size, sha256_of(folder / path), describe(path)) for path in paths]


def write_sums(folder: Path) -> None:
    """SHA256SUMS of all other files, as `sha256sum -c` reads it."""
    files = list_files(folder, lambda path: "")
    with atomic_path(folder / SUMS) as part:
        part.write_text("".join(f"{file.sha256}  {file.path}\n" for file in files), encoding="utf-8")

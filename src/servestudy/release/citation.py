"""What CITATION.cff says about the project, for the metadata of a release."""

from dataclasses import dataclass
from pathlib import Path

import yaml

from servestudy.errors import UserError

NEEDED = ("title", "abstract", "authors", "version", "license", "keywords", "date-released")


@dataclass(frozen=True)
class Author:
    """A person or a group."""

    name: str
    is_person: bool


@dataclass(frozen=True)
class Citation:
    """The project as it is to be cited."""

    title: str
    abstract: str
    authors: tuple[Author, ...]
    version: str
    licence: str
    keywords: tuple[str, ...]
    date: str
    """Day of the release, as 2026-12-31."""

    @property
    def licence_url(self) -> str:
        return f"https://spdx.org/licenses/{self.licence}"


def read_citation(path: Path) -> Citation:
    """Raises UserError if the file lacks something that a release needs."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    missing = [name for name in NEEDED if not values.get(name)]
    if missing:
        raise UserError(f"{path}: {', '.join(missing)} not stated; a release needs them: add them")
    authors = [
        Author(f"{author.get('given-names', '')} {author['family-names']}".strip(), True)
        if "family-names" in author
        else Author(author["name"], False)
        for author in values["authors"]
    ]
    return Citation(
        title=values["title"],
        abstract=" ".join(values["abstract"].split()),
        authors=tuple(authors),
        version=str(values["version"]),
        licence=values["license"],
        keywords=tuple(values["keywords"]),
        date=str(values["date-released"]),
    )

"""ro-crate-metadata.json: the release as a Research Object Crate 1.3, with its traces and their licences."""

from collections.abc import Iterable, Sequence

from servestudy.release.citation import Citation
from servestudy.release.listing import Listed
from servestudy.traces.registry import Source

SPECIFICATION = "https://w3id.org/ro/crate/1.3"


def ro_crate(
    citation: Citation, name: str, text: str, files: Sequence[Listed], sources: Iterable[Source], held: set[str]
) -> dict:
    """The JSON-LD document; `held`: the sources whose requests the release holds."""
    sources = list(sources)
    traces = [_trace(source, source.id in held) for source in sources]
    authors = [
        {"@id": f"#author-{number}", "@type": "Person" if author.is_person else "Organization", "name": author.name}
        for number, author in enumerate(citation.authors, start=1)
    ]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": text,
        "datePublished": citation.date,
        "version": citation.version,
        "license": {"@id": citation.licence_url},
        "author": _references(authors),
        "publisher": _references(authors[:1]),
        "keywords": ", ".join(citation.keywords),
        "hasPart": [{"@id": file.path} for file in files],
        "isBasedOn": _references(traces),
    }
    descriptor = {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "conformsTo": {"@id": SPECIFICATION},
        "about": {"@id": "./"},
    }
    licences = sorted({citation.licence_url, *(_licence_url(source) for source in sources)})
    return {
        "@context": f"{SPECIFICATION}/context",
        "@graph": [
            descriptor,
            root,
            *authors,
            *(
                _licence(url, "of what servestudy made" if url == citation.licence_url else "of traces")
                for url in licences
            ),
            *traces,
            *(_file(file) for file in files),
        ],
    }


def _references(entities: list[dict]) -> dict | list[dict]:
    """As the specification wants them: a list only of several."""
    references = [{"@id": entity["@id"]} for entity in entities]
    return references if len(references) > 1 else references[0]


def _licence(url: str, text: str) -> dict:
    return {"@id": url, "@type": "CreativeWork", "name": url.rpartition("/")[2], "description": f"the licence {text}"}


def _file(file: Listed) -> dict:
    return {
        "@id": file.path,
        "@type": "File",
        "name": file.path,
        "description": file.text,
        "contentSize": str(file.bytes),
        "encodingFormat": file.media_type,
        "sha256": file.sha256,
    }


def _trace(source: Source, is_held: bool) -> dict:
    held = "Windows of it are in this release." if is_held else "No request of it is in this release."
    return {
        "@id": f"#trace-{source.id}",
        "@type": "CreativeWork",
        "name": source.title,
        "version": source.version,
        "license": {"@id": _licence_url(source)},
        "conditionsOfAccess": source.redistribution,
        "creditText": source.citation,
        "description": held,
        **({"url": source.url, "sha256": source.sha256} if source.url else {}),
    }


def _licence_url(source: Source) -> str:
    return f"https://spdx.org/licenses/{source.licence}"

"""croissant.json: the release's files, and its tables column by column, in the Croissant vocabulary of MLCommons."""

from collections.abc import Sequence

import pyarrow as pa

from servestudy.release.citation import Citation
from servestudy.release.listing import Listed
from servestudy.release.tables import Described, unit_of

_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS},
}
"""The one that Croissant 1.1 prescribes; readers compare it."""


def croissant(citation: Citation, name: str, text: str, files: Sequence[Listed], tables: Sequence[Described]) -> dict:
    """The JSON-LD document."""
    creators = [
        {"@type": "Person" if author.is_person else "Organization", "name": author.name} for author in citation.authors
    ]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": text,
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "license": citation.licence_url,
        "version": citation.version,
        "datePublished": citation.date,
        "creator": creators,
        "keywords": list(citation.keywords),
        "citeAs": f"{', '.join(author.name for author in citation.authors)}: {citation.title} {citation.version}",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file.path,
                "name": file.path,
                "description": file.text,
                "contentUrl": file.path,
                "contentSize": f"{file.bytes} B",
                "encodingFormat": file.media_type,
                "sha256": file.sha256,
            }
            for file in files
        ],
        "recordSet": [_record_set(table) for table in tables],
    }


def _record_set(table: Described) -> dict:
    return {
        "@type": "cr:RecordSet",
        "@id": table.name,
        "name": table.name,
        "description": table.text,
        "field": [_field(table, field) for field in table.schema],
    }


def _field(table: Described, field: pa.Field) -> dict:
    unit = unit_of(field)
    meaning = field.metadata[b"meaning"].decode()
    is_list = pa.types.is_list(field.type)
    return {
        "@type": "cr:Field",
        "@id": f"{table.name}/{field.name}",
        "name": field.name,
        "description": f"{meaning} (unit: {unit})" if unit else meaning,
        "dataType": _data_type(field.type.value_type if is_list else field.type),
        **({"isArray": True, "arrayShape": "-1"} if is_list else {}),
        "source": {"fileObject": {"@id": table.path}, "extract": {"column": field.name}},
    }


def _data_type(dtype: pa.DataType) -> str:
    if pa.types.is_boolean(dtype):
        return "sc:Boolean"
    if pa.types.is_integer(dtype):
        return "sc:Integer"
    return "sc:Float" if pa.types.is_floating(dtype) else "sc:Text"

"""Building a release: all in a folder beside it, which gets its name when it is complete."""

import csv
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from servestudy.errors import UserError
from servestudy.release.citation import read_citation
from servestudy.release.contents import MEASURED, Place, place_of
from servestudy.release.croissant import croissant
from servestudy.release.listing import list_files, write_sums
from servestudy.release.passing_on import sources_held
from servestudy.release.readme import readme
from servestudy.release.ro_crate import ro_crate
from servestudy.release.tables import (
    Described,
    only_of,
    put_together,
    sources_in,
    write_dictionary,
    write_released,
)
from servestudy.traces.registry import Source

CROISSANT = "croissant.json"
RO_CRATE = "ro-crate-metadata.json"
DICTIONARY = "data_dictionary.csv"
PROJECT_FILES = ("CITATION.cff", "LICENSE")
TEXTS = {
    "README.md": "what this release holds and how to make it again",
    DICTIONARY: "every column of the tables in data/, with unit and meaning",
    "traces.csv": "the traces: versions, addresses, hashes, licences, what to cite",
    "config.yaml": "configuration of the run",
    "manifest.json": "sha256 of every file that the run made",
    "CITATION.cff": "how to cite",
    "LICENSE": "licence of what servestudy made",
    CROISSANT: "this release in the Croissant vocabulary",
}
FOLDERS = {
    "figures": "figure of the run",
    "tables": "table of the run, as CSV",
    "claims": "published claims beside the values of the run",
    "spotcheck": "where and how the spot-check was measured",
}
TRACE_COLUMNS = ("id", "title", "version", "file", "url", "sha256", "licence", "redistribution", "citation")


@dataclass(frozen=True)
class Run:
    """Where a run keeps what it made, its configuration, and the options of Snakemake that give it."""

    folder: Path
    figures: Path
    tables: Path
    measurements: Path
    manifest: Path
    config: dict
    options: str


def write_release(run: Run, files: Iterable[Path], registry: dict[str, Source], project: Path, out: Path) -> None:
    """Write the release of a run to the folder `out`, in whose place a former one stood.

    `files`: all that the release is made of. Same files, same bytes. Raises UserError for a file that the release has
    no place for, a source that is not registered, or a citation that lacks something; nothing half-written stays.
    """
    citation = read_citation(project / "CITATION.cff")
    with _atomic_folder(out) as folder:
        parts = _copy_and_sort(run, files, folder)
        tables, sources, held = _write_tables(parts, registry, run.config["sources"], folder)
        name = f"servestudy {citation.version}, run {run.config['run']}: {run.config['title']}"
        for file in PROJECT_FILES:
            shutil.copyfile(project / file, folder / file)
        shutil.copyfile(run.manifest, folder / "manifest.json")
        write_dictionary(tables, folder / DICTIONARY)
        _write_traces(sources, held, folder / "traces.csv")
        configuration = yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True, width=120)
        (folder / "config.yaml").write_text(configuration, encoding="utf-8")
        text = readme(citation, run.config["run"], run.config["title"], run.options, tables, sources, held)
        (folder / "README.md").write_text(text, encoding="utf-8")

        about = {table.path: table.text for table in tables}

        def describe(path: str) -> str:
            return about.get(path) or TEXTS.get(path) or FOLDERS[path.partition("/")[0]]

        _write_json(
            croissant(citation, name, citation.abstract, list_files(folder, describe), tables), folder / CROISSANT
        )
        crate = ro_crate(citation, name, citation.abstract, list_files(folder, describe), sources, held)
        _write_json(crate, folder / RO_CRATE)
        write_sums(folder)


def _copy_and_sort(run: Run, files: Iterable[Path], folder: Path) -> list[tuple[Path, Place]]:
    """Copy what stays as it is; return the parts of tables."""
    parts = []
    for path in sorted(set(files)):
        for name, home in (("figures", run.figures), ("tables", run.tables), ("spotcheck", run.measurements)):
            if path.is_relative_to(home):
                place = path.relative_to(home)
                if name == "spotcheck" and path.suffix == ".parquet":
                    parts.append((path, place_of(Path(MEASURED) / place)))
                else:
                    _copy(path, folder / name / place)
                break
        else:
            if not path.is_relative_to(run.folder):
                raise UserError(f"{path}: lies in no folder of the run; a release is made of what {run.folder} made")
            place = path.relative_to(run.folder)
            if path.name == "claims.csv":
                _copy(path, folder / "claims" / f"{place.parent.name or 'portability'}.csv")
            else:
                parts.append((path, place_of(place)))
    return parts


def _write_tables(
    parts: list[tuple[Path, Place]], registry: dict[str, Source], of_run: list[str], folder: Path
) -> tuple[list[Described], list[Source], set[str]]:
    """Write the tables; return them, the sources that they are about, and those whose requests they hold."""
    by_table = defaultdict(list)
    for path, place in parts:
        by_table[place.table].append((path, place))
    described, names, held = [], set(of_run), set()
    for _, of_table in sorted(by_table.items()):
        table, place = put_together(of_table), of_table[0][1]
        if place.holds_requests:
            names |= sources_in(table)
            table = only_of(table, sources_held(sources_in(table), registry))
            held |= sources_in(table)
        if table.num_rows or not place.holds_requests:
            described.append(write_released(table, place, folder))
    return described, [registry[name] for name in registry if name in names], held


def _write_traces(sources: list[Source], held: set[str], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*TRACE_COLUMNS, "requests_in_release"])
        for source in sources:
            values = [getattr(source, name) or "" for name in TRACE_COLUMNS]
            writer.writerow([*values, "yes" if source.id in held else "no"])


def _write_json(document: dict, path: Path) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


@contextmanager
def _atomic_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside `out`; give it that name on success, remove it on any exception."""
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        if out.exists():
            shutil.rmtree(out)
        os.replace(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise

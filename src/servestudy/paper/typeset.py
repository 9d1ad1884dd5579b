"""Typesetting: the paper's source, the values and figures of a run, and the list of what makes what, to a PDF."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from servestudy.errors import UserError
from servestudy.files import atomic_path

SHOWN = re.compile(r'shown-(figure|table)\(\s*"([\w./-]+)"')
"""How the source of the paper names the items that it shows."""


def shown_items(folder: Path | str) -> dict[str, list[str]]:
    """Items that the paper in a folder shows, by `figure` and `table`, in order of files and lines."""
    shown: dict[str, list[str]] = {"figure": [], "table": []}
    for path in sorted(Path(folder).rglob("*.typ")):
        for kind, item in SHOWN.findall(path.read_text(encoding="utf-8")):
            if item not in shown[kind]:
                shown[kind].append(item)
    return shown


def typeset(source: Path, values: Path, figures: Mapping[str, Path], traceability: Path, out: Path) -> None:
    """Write the PDF. Same inputs, same bytes: the document has no date.

    All files lie below the current folder, which is the root that the source's absolute paths count from. Raises
    UserError if one does not, is missing, or if the source cannot be typeset with these values.
    """
    import typst

    root = Path.cwd().resolve()
    _from_root(source, root)
    inputs = {
        "values": _from_root(values, root),
        "traceability": _from_root(traceability, root),
        "figures": json.dumps({item: _from_root(path, root) for item, path in figures.items()}),
    }
    try:
        pdf = typst.compile(
            str(source), root=str(root), sys_inputs=inputs, ignore_system_fonts=True, timestamp=0, format="pdf"
        )
    except typst.TypstError as error:
        raise UserError(f"{source}: cannot be typeset with {values}: {error}") from None
    with atomic_path(out) as part:
        part.write_bytes(pdf)


def _from_root(path: Path, root: Path) -> str:
    path = Path(path).resolve()
    if not path.is_file():
        raise UserError(f"{path}: not found; `snakemake paper --cores 2` makes what the paper needs")
    if not path.is_relative_to(root):
        raise UserError(f"{path}: lies outside {root}; run the command in the folder that holds the paper's inputs")
    return f"/{path.relative_to(root).as_posix()}"

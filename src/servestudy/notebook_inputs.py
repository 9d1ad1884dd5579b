"""What a notebook shows and reads, from its text alone: nothing is executed.

It names these by literals: `run.figure("portability/tau_heatmap")`, `run.table(...)`, and for other files of the run
`run.data(...)` and `run.path(...)`, whose names may hold {source}, {model} and {scheduler}.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from servestudy.errors import UserError
from servestudy.items import FIGURE, ORIGIN, TABLE, Item, item_of, module_file

_NAMED = re.compile(r'\brun\.(figure|table|data|path)\(\s*"([^"]+)"')


def code_of(notebook: Path | str) -> str:
    """The text of its code cells. Raises UserError for a file that is no notebook."""
    try:
        cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
        return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{notebook}: not a notebook ({error})") from None


def items_of(notebook: Path | str) -> list[Item]:
    """The figures and tables that it shows, in order. Raises UserError for one that is not registered."""
    return [item_of(kind, name) for kind, name in _NAMED.findall(code_of(notebook)) if kind in (FIGURE, TABLE)]


def files_of(notebook: Path | str, sources: Sequence[str], schedulers: Mapping[str, Sequence[str]]) -> list[str]:
    """The files of a run that it shows and reads, below <figures>, <tables> and <results>, each once.

    `schedulers` are the run's by engine model, the model that the first study's figures show before the other. What
    belongs to a model that the run leaves out is no input. Raises UserError for an item that is not registered.
    """
    shown_model, models = next(iter(schedulers)), set(schedulers)
    found = [f"<tables>/{ORIGIN}"]
    for item in items_of(notebook):
        if set(item.models) <= models:
            found.append(f"<{item.kind}s>/{item.file}")
            found += [f"<results>/{file}" for file in item.tables(shown_model).values()]
    for kind, name in _NAMED.findall(code_of(notebook)):
        if kind not in (FIGURE, TABLE):
            for model, names in schedulers.items():
                found += [
                    f"<results>/{name.format(source=source, model=model, scheduler=scheduler)}"
                    for source, scheduler in product(sources, names)
                ]
    return list(dict.fromkeys(found))


def modules_of(notebook: Path | str) -> list[str]:
    """The modules of this package that its code imports."""
    nodes = list(ast.walk(ast.parse(code_of(notebook))))
    named = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    named += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return sorted({name for name in named if name.split(".")[0] == __package__})


def shown_code(notebook: Path | str) -> list[Path]:
    """The files whose source text it shows."""
    return sorted({module_file(item) for item in items_of(notebook)})

"""Which files of this package a module is made of: a workflow step reruns when its own code changes."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
_PLUMBING = ("cli", "config", "errors", "files", "progress", "run_lock", "schemas", "traces.registry")
PLUMBING = frozenset(["servestudy", *(f"servestudy.{name}" for name in _PLUMBING)])
"""Modules that no value in a result depends on (the registry's values are parameters of the rules that use
them): a better error message reruns nothing."""


def code_files(*modules: str) -> list[Path]:
    """Files of modules of this package and of all that they import from it, PLUMBING left out; sorted.

    Imports are read from the source text, nothing is executed. Raises ModuleNotFoundError for a module that
    is not there.
    """
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found and module not in PLUMBING:
            found[module] = _file(module)
            waiting += _imports(module)
    return sorted(found.values())


@cache
def _file(module: str) -> Path:
    path = PACKAGE.parent / module.replace(".", "/")
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    raise ModuleNotFoundError(f"no file for the module {module}", name=module)


@cache
def _imports(module: str) -> list[str]:
    """Modules of this package that a module needs: its parent packages and what its text imports."""
    tree = ast.parse(_file(module).read_text(encoding="utf-8"))
    parents = [module[:end] for end, letter in enumerate(module) if letter == "."]
    named = [name for node in ast.walk(tree) for name in _named(node)]
    return [name for name in parents + named if name.split(".")[0] == __package__]


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        yield node.module
        for alias in node.names:  # a module of a package, or just a name of a module
            path = PACKAGE.parent / node.module.replace(".", "/") / alias.name
            if path.with_suffix(".py").is_file() or path.is_dir():
                yield f"{node.module}.{alias.name}"

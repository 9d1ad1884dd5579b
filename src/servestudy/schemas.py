"""Check values against workflow/schemas/*.schema.yaml: one line a problem, with what is allowed.

What is allowed is the `description` of the key in its schema.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

# Where Jupyter is installed, importing jsonschema builds a grammar of international URLs: two seconds in
# every job, for a format that no schema here uses. Without that module jsonschema leaves the format out.
_GRAMMAR = "rfc3987_syntax"
_hide = _GRAMMAR not in sys.modules
if _hide:
    sys.modules[_GRAMMAR] = None
from jsonschema import Draft202012Validator, ValidationError, validators  # noqa: E402

if _hide:
    del sys.modules[_GRAMMAR]

# Stricter than JSON: 1.0 is no count of things, and NaN is no number.
_TYPES = Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "integer": lambda _, value: type(value) is int,
        "number": lambda _, value: type(value) in (int, float) and math.isfinite(value),
    }
)
Validator = validators.extend(Draft202012Validator, type_checker=_TYPES)


def load_schema(name: str, root: Path = Path()) -> dict[str, Any]:
    """The schema workflow/schemas/<name>.schema.yaml of the project in `root`."""
    return yaml.safe_load((root / f"workflow/schemas/{name}.schema.yaml").read_bytes())


def schema_problems(place: str, values: Mapping[str, Any], schema: dict[str, Any], partial: bool = False) -> list[str]:
    """A line for each key that breaks the schema, in the order of the file; in `partial` values no key is missing."""
    problems: dict[tuple, str] = {}  # the first problem of a key
    for error in Validator(schema).iter_errors(values):
        if not (partial and error.validator == "required"):
            for path, text in _explain(error):
                problems.setdefault(path, f"{place}: {_dotted(path)}: {text}")
    return [problems[path] for path in sorted(problems, key=lambda path: _position(values, path))]


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """The sentence about a name that is not known, with the nearest known one."""
    known = list(known)
    guess = get_close_matches(str(name), known, n=1)
    hint = f"did you mean {guess[0]}?" if guess else f"allowed: {', '.join(known)}"
    return f"unknown {what} {show(name)}; {hint}"


def show(value: object, width: int = 60) -> str:
    """A value as a reader would write it in YAML, cut to `width` characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= width else text[: width - 1] + "…"


def _explain(error: ValidationError) -> Iterator[tuple[tuple, str]]:
    """Pairs of path and sentence: what was found there and what is allowed."""
    path, found, schema = tuple(error.absolute_path), error.instance, error.schema
    if error.validator == "additionalProperties":
        for name in [name for name in found if name not in schema["properties"]]:
            yield (*path, str(name)), unknown("key", name, schema["properties"])
    elif error.validator == "required":
        for name in [name for name in error.validator_value if name not in found]:
            yield (*path, name), f"missing; allowed: {schema['properties'][name]['description']}"
    elif error.validator == "uniqueItems":
        twice = dict.fromkeys(show(item) for item in found if found.count(item) > 1)
        yield path, f"found {', '.join(twice)} more than once; allowed: {schema['description']}, each once"
    elif "propertyNames" in error.absolute_schema_path:
        yield (*path, str(found)), f"found this name; allowed: {schema['description']}"
    else:
        yield path, f"found {show(found)}; allowed: {schema['description']}"


def _position(values: Any, path: tuple) -> list[int]:
    """Sort key: the order of keys in the file."""
    position = []
    for part in path:
        if isinstance(values, Mapping):
            keys = list(values)
            position.append(keys.index(part) if part in values else len(keys))
            values = values.get(part)
        else:
            position.append(part)
            values = values[part]
    return position


def _dotted(path: tuple) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the whole file"

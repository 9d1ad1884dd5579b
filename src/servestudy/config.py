"""Load and check configuration files: every problem at once, one line each.

A line names the file, the key, the value found and what is allowed.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from servestudy.audit.switches import arm_of, rules_of
from servestudy.errors import UserError
from servestudy.schemas import load_schema, schema_problems, show, unknown
from servestudy.traces.registry import SOURCES, Source, load_sources

BASE = "config/config.yaml"
SCHEDULERS = "config/schedulers.yaml"
COMMAND_LINE = "command line (--config)"


@dataclass(frozen=True)
class Layer:
    """A part of a run's configuration; later layers override earlier ones key by key."""

    place: str  # the file, or COMMAND_LINE
    values: Mapping[str, Any]


def run_layers(
    overrides: Iterable[Path | str] = (),
    arguments: Mapping[str, Any] | None = None,
    root: Path = Path(),
    with_base: bool = True,
) -> list[Layer]:
    """The layers of a run: config/config.yaml, the files of --configfile, the pairs of --config.

    Raises UserError with a line for each file that cannot be read.
    """
    files = [root / BASE] if with_base else []
    files += [path for path in map(Path, overrides) if (root / path).resolve() != (root / BASE).resolve()]
    layers, problems = [], []
    for path in files:
        try:
            layers.append(Layer(_place(root / path, root), load_yaml(root / path)))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    if arguments:
        nested = {key: _typed(value) for key, value in arguments.items() if not isinstance(value, str)}
        layers.append(Layer(COMMAND_LINE, {**arguments, **nested}))
    return layers


def check_run(layers: Sequence[Layer], root: Path = Path()) -> dict[str, Any]:
    """Return the merged configuration of a run after checking each layer, and the whole.

    Raises UserError that lists all problems, a line each.
    """
    schema = load_schema("config", root)
    problems: list[str] = []
    sources = _or_note(problems, lambda: load_sources(root / SOURCES))
    schedulers = _or_note(problems, lambda: load_schedulers(root))
    for layer in layers:
        problems += schema_problems(layer.place, layer.values, schema, partial=True)
        if sources:
            problems += _unknown_names(layer, "sources", sources, SOURCES)
        if schedulers:
            problems += _unknown_names(layer, "schedulers", schedulers, SCHEDULERS)
        problems += _mirror_problems(layer, root)
        problems += _rule_problems(layer)
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer.values)
    if not problems:
        problems += schema_problems(layers[0].place, merged, schema)
    if not problems:
        problems += _whole_run_problems(layers, merged, sources, schedulers, root)
    if problems:
        raise UserError("\n".join(problems))
    return merged


def _or_note(problems: list[str], load: Callable[[], dict]) -> dict:
    """What `load` returns; or nothing, and its problems noted beside those of the other files."""
    try:
        return load()
    except UserError as error:
        problems += str(error).splitlines()
        return {}


def check_config_files(paths: Iterable[Path | str], root: Path = Path()) -> None:
    """Check each file by itself on top of config/config.yaml (schedulers.yaml: as what it is).

    Raises UserError that lists the problems of all files, a line each.
    """
    problems: dict[str, None] = {}  # in order and without repetition: each file brings in those of BASE
    for path in map(Path, paths):
        try:
            if path.resolve() == (root / SCHEDULERS).resolve():
                load_schedulers(root)
            else:
                check_run(run_layers([path.absolute()], root=root), root)
        except UserError as error:
            problems |= dict.fromkeys(str(error).splitlines())
    if problems:
        raise UserError("\n".join(problems))


def load_schedulers(root: Path = Path()) -> dict[str, dict[str, Any]]:
    """config/schedulers.yaml, checked: name -> entry, in the order of the file.

    Raises UserError that lists all problems, a line each.
    """
    entries = load_yaml(root / SCHEDULERS)
    problems = schema_problems(SCHEDULERS, entries, load_schema("schedulers", root))
    if not problems:
        problems = [
            f"{SCHEDULERS}: {name}.class.{model}: found {show(path)}, which no importable file defines; "
            "allowed: module:Class, with the module below src/servestudy/ or installed"
            for name, entry in entries.items()
            for model, path in entry["class"].items()
            if scheduler_file(path) is None
        ]
    if problems:
        raise UserError("\n".join(problems))
    return entries


def scheduler_file(class_path: str) -> Path | None:
    """The file that defines the class at `module:Class`, found without running it; None if there is none."""
    module, _, class_name = class_path.partition(":")
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:  # of a parent package
        return None
    if spec is None or not spec.has_location:
        return None
    if Path(spec.origin).resolve().parent == Path.cwd().resolve():
        return None  # importable here, but not by the jobs
    text = Path(spec.origin).read_text(encoding="utf-8")
    return Path(spec.origin) if re.search(rf"^class {class_name}\b", text, re.MULTILINE) else None


def load_yaml(path: Path | str) -> dict[str, Any]:
    """A YAML file that holds a mapping without repeated keys; raises UserError otherwise."""
    try:
        values = yaml.load(Path(path).read_bytes(), _UniqueKeyLoader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}: line {line}: not valid YAML ({error.problem})") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if values is None:
        raise UserError(f"{path}: the file is empty; it must hold keys and values such as `run: smoke`")
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else "a single value"
        raise UserError(f"{path}: found {kind}; it must hold keys and values such as `run: smoke`")
    return values


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML as usual, but a key that stands twice is an error instead of a silent override."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _unknown_names(layer: Layer, key: str, known: Iterable[str], where: str) -> Iterator[str]:
    listed = layer.values.get(key)
    for position, name in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(name, str) and name not in known:
            yield f"{layer.place}: {key}[{position}]: {unknown('name', name, known)} ({where})"


def _rule_problems(layer: Layer) -> Iterator[str]:
    """Defects and arms that do not exist."""
    audit = layer.values.get("audit")
    chosen = {
        "rules": layer.values.get("rules"),
        "audit.ablations": audit.get("ablations") if isinstance(audit, Mapping) else None,
    }
    for key, arms_of_defect in chosen.items():
        for name, arms in arms_of_defect.items() if isinstance(arms_of_defect, Mapping) else []:
            for arm in arms if isinstance(arms, list) else [arms]:
                try:
                    if isinstance(arm, str):
                        arm_of(name, arm)
                except UserError as error:
                    yield f"{layer.place}: {key}.{name}: {error}"


def _mirror_problems(layer: Layer, root: Path) -> Iterator[str]:
    traces = layer.values.get("traces")
    mirror = traces.get("mirror") if isinstance(traces, Mapping) else None
    if mirror and isinstance(mirror, str) and not (root / mirror).is_dir():
        found = f"found {show(mirror)}, which is no folder"
        yield f"{layer.place}: traces.mirror: {found}; allowed: a folder, or null"


def _whole_run_problems(
    layers: Sequence[Layer],
    merged: dict[str, Any],
    sources: Mapping[str, Source],
    schedulers: Mapping[str, dict[str, Any]],
    root: Path,
) -> Iterator[str]:
    if sum(schedulers[name]["primary"] for name in merged["schedulers"]) < 2:
        place, found = _origin(layers, "schedulers"), show(merged["schedulers"])
        yield f"{place}: schedulers: found {found}; allowed: two or more primary ones, as only those are ranked"
    synthetic = [name for name in merged["sources"] if sources[name].synthetic]
    if synthetic and "synthetic" not in merged["title"].lower():
        yield (
            f"{_origin(layers, 'title')}: title: found {show(merged['title'])}; "
            f'allowed: a text with the word "synthetic", since {synthetic[0]} is'
        )
    yield from _serving_problems(layers, merged, root)
    yield from _rule_conflicts(layers, merged)
    yield from _run_name_problems(layers, merged["run"], root)


def _serving_problems(layers: Sequence[Layer], merged: dict[str, Any], root: Path) -> Iterator[str]:
    from servestudy.serving_settings import load_serving_settings  # which needs this module

    if not (root / merged["serving"]).is_file():
        found = f"found {show(merged['serving'])}, which is no file"
        yield f"{_origin(layers, 'serving')}: serving: {found}; allowed: a settings file such as config/serving.yaml"
        return
    problems: list[str] = []
    _or_note(problems, lambda: load_serving_settings(root / merged["serving"]))
    yield from problems


def _rule_conflicts(layers: Sequence[Layer], merged: dict[str, Any]) -> Iterator[str]:
    """Arms that set one rule to two values."""
    try:
        rules_of(merged["rules"])
    except UserError as error:
        yield f"{_origin(layers, 'rules')}: rules: {error}"


def _run_name_problems(layers: Sequence[Layer], run: str, root: Path) -> Iterator[str]:
    """Runs of different config files must not overwrite each other's results."""
    files = [layer.place for layer in layers if layer.place != COMMAND_LINE]
    is_base_alone = files == [BASE]
    naming = [at.place for at in layers if "run" in at.values and (at.place != BASE or is_base_alone)]
    where, found = (naming or files)[-1], show(run) if naming else f"no name, so that it is {show(run)}"
    for path in sorted((root / BASE).parent.glob("*.yaml")):
        place = _place(path, root)
        is_other = place not in files or (place == BASE and not is_base_alone)
        if is_other and _run_name(path) == run:
            yield (
                f"{where}: run: found {found}, which is the run of {place}; "
                "allowed: a name of its own, so that no run overwrites the results of another"
            )


def _run_name(path: Path) -> Any:
    """The run that a neighbouring config file names; None if that file is broken or no run's."""
    try:
        return load_yaml(path).get("run")
    except UserError:
        return None


def _origin(layers: Sequence[Layer], key: str) -> str:
    """The last layer that sets a key: there the reader has to mend it."""
    return [layer.place for layer in layers if key in layer.values][-1]


def _merge(below: Any, above: Any) -> Any:
    """`above` over `below`, mappings key by key, as Snakemake merges its config files."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        return {**below, **{key: _merge(below.get(key), value) for key, value in above.items()}}
    return above


def _typed(value: Any) -> Any:
    """Snakemake reads the 1 of `--config windows="{stage0: 1}"` as a text: read such texts again, as YAML."""
    if isinstance(value, Mapping):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    try:
        typed = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        return value
    return value if isinstance(typed, Mapping | list) else typed


def _place(path: Path, root: Path) -> str:
    """A path as a reader of the message would write it."""
    path, root = path.absolute(), root.absolute()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

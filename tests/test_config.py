"""Configuration files: what is accepted, and every way of being told what is wrong."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from snakemake.cli import parse_config
from snakemake.utils import update_config

from servestudy.config import Layer, check_config_files, check_run, load_schedulers, load_yaml, run_layers
from servestudy.errors import UserError
from servestudy.schemas import load_schema

RUN_CONFIGS = ("config.yaml", "smoke.yaml", "real.yaml", "paper.yaml")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A folder with the shipped configuration, to be broken."""
    shutil.copytree(project / "config", tmp_path / "config")
    shutil.copytree(project / "workflow/schemas", tmp_path / "workflow/schemas")
    return tmp_path


def problems_of(root: Path, text: str, **arguments) -> list[str]:
    """The lines about a file mine.yaml with this text, laid on top of config.yaml."""
    (root / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        check_run(run_layers(["mine.yaml"], arguments, root), root)
    return str(caught.value).splitlines()


# What is shipped


@pytest.mark.parametrize("name", RUN_CONFIGS)
def test_shipped_configs_are_valid(project, name):
    check_config_files([project / "config" / name], project)


def test_default_config_holds_every_key_with_a_comment(project):
    def keys(schema: dict, prefix: str = "") -> list[str]:
        found = []
        for name, part in schema["properties"].items():
            found += [f"{prefix}{name}", *(keys(part, f"{prefix}{name}.") if "properties" in part else [])]
        return found

    config = load_yaml(project / "config/config.yaml")
    flat = list(config) + [f"{key}.{name}" for key in ("windows", "sensitivity", "traces") for name in config[key]]
    assert sorted(flat) == sorted(keys(load_schema("config", project)))
    readme = (project / "config/README.md").read_text(encoding="utf-8")
    missing = [key for key in flat if key not in ("windows", "sensitivity", "traces") and f"`{key}`" not in readme]
    assert not missing, "config/README.md explains each key"


def test_the_13_schedulers_stand_in_the_order_of_the_study(project):
    entries = load_schedulers(project)
    assert list(entries) == load_yaml(project / "config/config.yaml")["schedulers"]
    assert len(entries) == 13
    assert [name for name, entry in entries.items() if not entry["primary"]] == [
        "vllm_style_token_budget",
        "scorpio_style_slo_guard",
    ]
    for name, entry in entries.items():  # one class in one file, named after the scheduler
        class_name = "".join(part.capitalize() for part in name.split("_"))
        assert entry["class"] == f"servestudy.schedulers.published.{name}:{class_name}"


def test_every_key_of_the_schemas_says_what_is_allowed(project):
    def undescribed(part: object, path: str) -> list[str]:
        if not isinstance(part, dict):
            return []
        here = [path] if {"type", "enum", "pattern"} & part.keys() and "description" not in part else []
        below = {**part.get("properties", {}), "items": part.get("items"), "*": part.get("additionalProperties")}
        return here + [found for name, child in below.items() for found in undescribed(child, f"{path}.{name}")]

    config = load_schema("config", project)
    config["description"] = "the whole file"
    assert undescribed(config, "config") == []
    assert undescribed(load_schema("schedulers", project), "schedulers") == []


# Three mistakes, three lines


def test_all_problems_are_listed_at_once(root):
    assert problems_of(
        root,
        """
        run: mine
        windws: {stage0: 2}
        repetitions: 0
        schedulers: [fifo, edff]
        """,
    ) == [
        'mine.yaml: windws: unknown key "windws"; did you mean windows?',
        "mine.yaml: repetitions: found 0; allowed: a whole number, 1 or more",
        'mine.yaml: schedulers[1]: unknown name "edff"; did you mean edf? (config/schedulers.yaml)',
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("run: a/b", 'run: found "a/b"; allowed: a folder name of letters'),
        ("run: ''", 'run: found ""; allowed: a folder name'),
        ("run: '..'", 'run: found ".."; allowed: a folder name'),
        ("run: |\n  mine\n", 'run: found "mine\\n"; allowed: a folder name'),
        ("run: 2024", "run: found 2024; allowed: a folder name"),
        ("run: 2024-05-12", 'run: found "2024-05-12"; allowed: a folder name'),  # a date to YAML
        ("title: '  '", 'title: found "  "; allowed: a text of one line'),
        ("title: a text", 'title: found "a text"; allowed: a text with the word "synthetic"'),
        ("sources: burstgpt", 'sources: found "burstgpt"; allowed: a list of two or more ids'),
        ("sources: [burstgpt]", 'sources: found ["burstgpt"]; allowed: a list of two or more ids'),
        ("sources: [burstgpt, 7]", "sources[1]: found 7; allowed: an id of config/sources.tsv"),
        ("sources: [burstgpt, bailan_qwen]", 'sources[1]: unknown name "bailan_qwen"; did you mean bailian_qwen?'),
        ("sources: [burstgpt, zzz]", 'sources[1]: unknown name "zzz"; allowed: burstgpt, azure_llm_2024,'),
        ("sources: [burstgpt, burstgpt]", 'sources: found "burstgpt" more than once; allowed: a list of two'),
        ("models: [serving]", 'models[0]: found "serving"; allowed: published'),
        ("models: []", "models: found []; allowed: a list of one or more of published"),
        (
            "schedulers: [vllm_style_token_budget, fifo]",
            'schedulers: found ["vllm_style_token_budget", "fifo"]; allowed: two or more primary ones',
        ),
        ("schedulers:", "schedulers: found null; allowed: a list of two or more names"),
        ("windows: 40", "windows: found 40; allowed: a mapping with the keys stage0 and extension"),
        ("windows: {stage0: -1}", "windows.stage0: found -1; allowed: a whole number, 1 or more"),
        ("windows: {stage0: 1.0}", "windows.stage0: found 1.0; allowed: a whole number, 1 or more"),
        ("windows: {stage0: yes}", "windows.stage0: found true; allowed: a whole number, 1 or more"),
        ("windows: {stage: 1}", 'windows.stage: unknown key "stage"; did you mean stage0?'),
        ("windows: {stage0: 0}", "windows.stage0: found 0; allowed: a whole number, 1 or more"),
        ('title: "synthetic {x}"', 'title: found "synthetic {x}"; allowed: a text of one line without braces'),
        ("repetitions: two", 'repetitions: found "two"; allowed: a whole number, 1 or more'),
        (
            "sensitivity: {slo_multipliers: [10, 20]}",
            "sensitivity.slo_multipliers[1]: found 20; allowed: a whole number, 1 or more, but not 20, which is",
        ),
        ("sensitivity: {slo_multipliers: []}", "sensitivity.slo_multipliers: found []; allowed: a list of one or more"),
        ("sensitivity: {slo_multipliers: [0.5]}", "sensitivity.slo_multipliers[0]: found 0.5; allowed: a whole number"),
        (
            "sensitivity: {window_requests: [50, 200]}",
            "sensitivity.window_requests[1]: found 200; allowed: a whole number from 2 to 400, but not 200, which is",
        ),
        ("sensitivity: {window_requests: [401]}", "sensitivity.window_requests[0]: found 401; allowed: a whole number"),
        ("sensitivity: {window_regions: [KNE]}", 'sensitivity.window_regions[0]: found "KNE"; allowed: LOW, PRE_KNEE'),
        ("traces: {max_bad_share: 2}", "traces.max_bad_share: found 2; allowed: a number from 0 to 1"),
        ("traces: {max_bad_share: .nan}", "traces.max_bad_share: found NaN; allowed: a number from 0 to 1"),
        ("traces: {mirror: nowhere}", 'traces.mirror: found "nowhere", which is no folder; allowed: a folder'),
        ("traces: {mirror: ''}", 'traces.mirror: found ""; allowed: null, or the path of a folder'),
        ("traces: {1: 2}", "traces.1: unknown key 1; allowed: mirror, max_bad_share"),
    ],
)
def test_each_mistake_is_named(root, text, line):
    lines = problems_of(root, text if text.startswith("run:") else f"run: mine\n{text}")
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"mine.yaml: {line}")


# Which file is named


def test_the_message_names_the_file_in_which_the_wrong_key_stands(root):
    config = root / "config/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("repetitions: 2", "repetitions: 0"), "utf-8")
    assert problems_of(root, "run: mine\nwindows: {stage0: x}", models="published") == [
        "config/config.yaml: repetitions: found 0; allowed: a whole number, 1 or more",
        'mine.yaml: windows.stage0: found "x"; allowed: a whole number, 1 or more',
        'command line (--config): models: found "published"; allowed: a list of one or more of published',
    ]


def test_a_missing_key_is_named(root):
    config = root / "config/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("repetitions: 2", ""), "utf-8")
    assert problems_of(root, "run: mine") == [
        "config/config.yaml: repetitions: missing; allowed: a whole number, 1 or more"
    ]


def test_several_files_are_checked_apart_and_their_problems_listed_together(root):
    for name, text in {"a.yaml": "run: a\nmodels: x", "b.yaml": "run: b\nrepetitions: x"}.items():
        (root / name).write_text(text)
    (root / "config/schedulers.yaml").write_text("fifo: 1\nedf: 2\n")
    with pytest.raises(UserError) as caught:
        check_config_files([root / "config/schedulers.yaml"], root)
    assert [line.split(";")[0] for line in str(caught.value).splitlines()] == [
        "config/schedulers.yaml: fifo: found 1",
        "config/schedulers.yaml: edf: found 2",
    ]
    shutil.copy(Path(__file__).parents[1] / "config/schedulers.yaml", root / "config")
    with pytest.raises(UserError) as caught:
        check_config_files([root / "a.yaml", root / "b.yaml"], root)
    assert [line.split(";")[0] for line in str(caught.value).splitlines()] == [
        'a.yaml: models: found "x"',
        'b.yaml: repetitions: found "x"',
    ]


# Runs must not overwrite each other


def test_a_config_without_a_run_of_its_own_is_refused(root):
    assert problems_of(root, "windows: {stage0: 3}") == [
        'mine.yaml: run: found no name, so that it is "embedded", which is the run of config/config.yaml; '
        "allowed: a name of its own, so that no run overwrites the results of another"
    ]


@pytest.mark.parametrize("arguments", [{}, {"run": "real"}])
def test_the_run_of_another_config_is_refused(root, arguments):
    (line,) = problems_of(root, "run: mine" if arguments else "run: real", **arguments)
    place = "command line (--config)" if arguments else "mine.yaml"
    assert line.startswith(f'{place}: run: found "real", which is the run of config/real.yaml; ')


def test_command_line_may_vary_the_default_run(root):
    arguments = parse_config(["windows={stage0: 1}", "repetitions=1", "traces={mirror: null, max_bad_share: 0.5}"])
    merged = check_run(run_layers([], arguments, root), root)
    assert merged["run"] == "embedded"
    assert merged["windows"] == {"stage0": 1, "extension": 30}
    assert merged["repetitions"] == 1
    assert merged["traces"] == {"mirror": None, "max_bad_share": 0.5}


def test_text_on_the_command_line_stays_text(root):
    arguments = parse_config(["run=2024-05-12", "models=[published]", "traces={mirror: 'a: b: c'}"])
    (root / "a: b: c").mkdir()
    merged = check_run(run_layers([], arguments, root), root)
    assert merged["traces"]["mirror"] == "a: b: c"
    assert merged["run"] == "2024-05-12"
    assert merged["models"] == ["published"]


# Merging


@pytest.mark.parametrize("name", RUN_CONFIGS[1:])
def test_layers_are_merged_as_snakemake_does(project, name):
    expected = load_yaml(project / "config/config.yaml")
    update_config(expected, load_yaml(project / "config" / name))
    assert check_run(run_layers([f"config/{name}"], root=project), project) == expected


def test_naming_the_default_config_changes_nothing(project):
    assert run_layers(["config/config.yaml"], root=project) == run_layers([], root=project)


def test_a_config_can_stand_alone(root):
    layers = run_layers(["config/smoke.yaml"], root=root, with_base=False)
    assert [layer.place for layer in layers] == ["config/smoke.yaml"]
    with pytest.raises(UserError, match=r"^config/smoke.yaml: sources: missing; allowed: a list of two"):
        check_run(layers, root)


# Files that cannot be read


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"run: mine\nsources: [a\nmodels: [b]\n", "mine.yaml: line 3: not valid YAML (expected ',' or ']'"),
        (b"run: mine\n\twindows: 3\n", "mine.yaml: line 2: not valid YAML (found character '\\t'"),
        (b"run: mine\nrun: yours\n", "mine.yaml: line 2: not valid YAML (the key run stands twice)"),
        (b"windows:\n  stage0: 1\n  stage0: 2\n", "mine.yaml: line 3: not valid YAML (the key stage0 stands twice)"),
        (b"? [a, b]\n: c\n", "mine.yaml: line 1: not valid YAML (found unhashable key)"),
        (b"run: !!python/name:os.system x\n", "mine.yaml: line 1: not valid YAML (could not determine a construct"),
        (b"run: m\xfcller\n", "mine.yaml: not valid YAML ("),
        (b"", "mine.yaml: the file is empty; it must hold keys and values"),
        (b"# nothing\n", "mine.yaml: the file is empty"),
        (b"- run\n- mine\n", "mine.yaml: found a list; it must hold keys and values"),
        (b"mine\n", "mine.yaml: found a single value; it must hold keys and values"),
    ],
)
def test_unreadable_files(root, content, message):
    (root / "mine.yaml").write_bytes(content)
    with pytest.raises(UserError) as caught:
        run_layers([root / "mine.yaml"], root=root)
    text = str(caught.value)
    assert text.count("\n") == 0
    assert text.removeprefix(f"{root}/").startswith(message)


def test_missing_files_are_all_named(root):
    (root / "folder").mkdir()
    with pytest.raises(UserError) as caught:
        run_layers([root / "no.yaml", root / "folder"], root=root)
    assert [line.removeprefix(f"{root}/") for line in str(caught.value).splitlines()] == [
        "no.yaml: cannot be read (No such file or directory)",
        "folder: cannot be read (Is a directory)",
    ]


# The registry of schedulers


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"class": "fifo"}, 'fifo.class: found "fifo"; allowed: "module:Class" of an importable'),
        (
            {"class": "servestudy.schedulers.published.fifoo:Fifo"},
            'fifo.class: found "servestudy.schedulers.published.fifoo:Fifo", which no importable file defines',
        ),
        (
            {"class": "servestudy.schedulers.published.fifo:Fif"},
            'fifo.class: found "servestudy.schedulers.published.fifo:Fif", which no importable file defines',
        ),
        ({"class": "no_such_package.fifo:Fifo"}, 'fifo.class: found "no_such_package.fifo:Fifo", which no'),
        ({"class": "sys:Fifo"}, 'fifo.class: found "sys:Fifo", which no importable file defines'),
        ({"fidelity": "perfect"}, 'fifo.fidelity: found "perfect"; allowed: mechanism reimplementation, faithful'),
        ({"family": "first"}, 'fifo.family: found "first"; allowed: the mechanism family'),
        ({"primary": "yes"}, 'fifo.primary: found "yes"; allowed: true if'),
        ({"label": "x"}, 'fifo.label: unknown key "label"; allowed: class, stands_for'),
        ({"stands_for": {"rule": "x", "paper": None, "engine": None}}, "fifo.stands_for.version: missing; allowed"),
    ],
)
def test_mistakes_in_the_registry_of_schedulers(root, change, line):
    path = root / "config/schedulers.yaml"
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    entries["fifo"] |= change
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_schedulers(root)
    assert str(caught.value).startswith(f"config/schedulers.yaml: {line}")
    assert "\n" not in str(caught.value)


def test_unfit_name_in_the_registry_of_schedulers(root):
    path = root / "config/schedulers.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("\nfifo:", "\nFi-fo:"), encoding="utf-8")
    with pytest.raises(UserError, match=r"^config/schedulers.yaml: Fi-fo: found this name; allowed: a name of lower"):
        load_schedulers(root)


def test_problems_of_the_registry_of_sources_come_through(root):
    (root / "config/sources.tsv").write_text("id\ttitle\n")
    with pytest.raises(UserError, match=r"sources\.tsv"):
        check_run([Layer("mine.yaml", {})], root)


# Cost


def test_reading_a_config_stays_cheap():
    """Snakemake reads it at each start: nothing heavy, and no grammar of URLs behind jsonschema."""
    heavy = "{'numpy', 'pandas', 'pyarrow', 'scipy', 'rfc3987_syntax', 'snakemake'}"
    code = f"import sys, servestudy.config; print(sorted({heavy} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_broken_registries_and_the_config_are_told_together(root):
    sources = root / "config/sources.tsv"
    sources.write_text(sources.read_text("utf-8").replace("\tazure\t", "\tazzure\t", 1), "utf-8")
    schedulers = root / "config/schedulers.yaml"
    schedulers.write_text(schedulers.read_text("utf-8").replace("primary: true", "primary: maybe", 1), "utf-8")
    lines = problems_of(root, "run: mine\nrepetitions: 0")
    assert len(lines) == 3, lines
    assert "sources.tsv, line 3: format" in lines[0]
    assert lines[1].startswith("config/schedulers.yaml: fifo.primary:")
    assert lines[2].startswith("mine.yaml: repetitions:")

# ruff: noqa: F811 (fixtures are imported)
"""Configuration files: what is shipped, and every way of being told what is wrong."""

import subprocess
import sys

import pytest
import yaml
from made_config import (
    RUN_CONFIGS,
    problems_of,
    root,  # noqa: F401
)

from servestudy.config import Layer, check_config_files, check_run, load_schedulers, load_yaml, run_layers
from servestudy.errors import UserError
from servestudy.schemas import load_schema

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
    schema = load_schema("config", project)
    sections = [key for key, part in schema["properties"].items() if "properties" in part]
    flat = list(config) + [f"{key}.{name}" for key in sections for name in config[key]]
    assert sorted(flat) == sorted(keys(schema))
    readme = (project / "config/README.md").read_text(encoding="utf-8")
    missing = [key for key in flat if key not in ("windows", "sensitivity", "traces") and f"`{key}`" not in readme]
    assert not missing, "config/README.md explains each key"


def test_the_13_schedulers_stand_in_the_order_of_the_study_and_others_after_them(project):
    entries = load_schedulers(project)
    of_the_study = {name: entry for name, entry in entries.items() if "published" in entry["class"]}
    assert list(entries)[:13] == list(of_the_study) == load_yaml(project / "config/config.yaml")["schedulers"][:13]
    assert [name for name, entry in of_the_study.items() if not entry["primary"]] == [
        "vllm_style_token_budget",
        "scorpio_style_slo_guard",
    ]
    for name, entry in of_the_study.items():  # one class in one file, named after the scheduler
        class_name = "".join(part.capitalize() for part in name.split("_"))
        assert entry["class"]["published"] == f"servestudy.schedulers.published.{name}:{class_name}"
        assert entry["fidelity"] is not None


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
        ("models: [honest]", 'models[0]: found "honest"; allowed: published or serving'),
        ("models: []", "models: found []; allowed: a list of one or both of published and serving"),
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
        ("rules: {laxity: seconds}", "rules.laxity: rule 'laxity' is unknown; allowed: prefill_free, batch_free"),
        ("rules: {laxity_units: 1}", "rules.laxity_units: found 1; allowed: an arm of this defect"),
        (
            "rules: {prefill_free: shared_contention, batch_tokens: budget}",
            "rules: prefill_free=shared_contention and batch_tokens=budget both set engine.prefill",
        ),
        (
            "audit: {ablations: {laxity_units: [minutes]}}",
            "audit.ablations.laxity_units: rule laxity_units has no arm 'minutes'; allowed: published, seconds",
        ),
        ("audit: {regions: [KNE]}", 'audit.regions[0]: found "KNE"; allowed: LOW, PRE_KNEE'),
    ],
)
def test_each_mistake_is_named(root, text, line):
    lines = problems_of(root, text if text.startswith("run:") else f"run: mine\n{text}")
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"mine.yaml: {line}")


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
        ({"class": "fifo"}, 'fifo.class: found "fifo"; allowed: a mapping from engine models'),
        ({"class": {}}, "fifo.class: found {}; allowed: a mapping from engine models"),
        (
            {"class": {"published": "fifo"}},
            'fifo.class.published: found "fifo"; allowed: "module:Class" of an importable',
        ),
        ({"class": {"hardware": "a:B"}}, 'fifo.class.hardware: unknown key "hardware"; allowed: published, serving'),
        (
            {"class": {"published": "servestudy.schedulers.published.fifoo:Fifo"}},
            'fifo.class.published: found "servestudy.schedulers.published.fifoo:Fifo", which no importable file',
        ),
        (
            {"class": {"published": "servestudy.schedulers.published.fifo:Fif"}},
            'fifo.class.published: found "servestudy.schedulers.published.fifo:Fif", which no importable file defines',
        ),
        (
            {"class": {"published": "no_such_package.fifo:Fifo"}},
            'fifo.class.published: found "no_such_package.fifo:Fifo", which no',
        ),
        (
            {"class": {"published": "sys:Fifo"}},
            'fifo.class.published: found "sys:Fifo", which no importable file defines',
        ),
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

# ruff: noqa: F811 (fixtures are imported)
"""Configuration files in layers: how they are merged, which one a message names, whose run it is."""

import shutil
from pathlib import Path

import pytest
from made_config import (
    RUN_CONFIGS,
    problems_of,
    root,  # noqa: F401
)
from snakemake.cli import parse_config
from snakemake.utils import update_config

from servestudy.config import check_config_files, check_run, load_yaml, run_layers
from servestudy.errors import UserError

# Which file is named


def test_the_message_names_the_file_in_which_the_wrong_key_stands(root):
    config = root / "config/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("repetitions: 2", "repetitions: 0"), "utf-8")
    assert problems_of(root, "run: mine\nwindows: {stage0: x}", models="published") == [
        "config/config.yaml: repetitions: found 0; allowed: a whole number, 1 or more",
        'mine.yaml: windows.stage0: found "x"; allowed: a whole number, 1 or more',
        'command line (--config): models: found "published"; allowed: a list of one or both of published and serving',
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
    with pytest.raises(UserError, match=r"(?m)^config/smoke.yaml: sources: missing; allowed: a list of two"):
        check_run(layers, root)

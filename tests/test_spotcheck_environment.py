"""The environment of the spot-check: pinned, apart from the main one, and the same by both routes."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCK = "requirements-spotcheck.lock"
PYTHON = {"python_version": "3.11", "python_full_version": "3.11.13", "implementation_name": "cpython"}


def pins(project, name) -> dict[str, set[str]]:
    """Name -> versions that a lock installs under Python 3.11."""
    lines = (project / name).read_text().splitlines()
    requirements = [each for each in map(Requirement, lines) if each.marker is None or each.marker.evaluate(PYTHON)]
    found: dict[str, set[str]] = {}
    for each in requirements:
        (pin,) = each.specifier
        assert pin.operator == "==", f"{each} is not pinned"
        found.setdefault(canonicalize_name(each.name), set()).add(pin.version)
    return found


@pytest.fixture(scope="module")
def extra(project) -> list[Requirement]:
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return [Requirement(each) for each in table["optional-dependencies"]["spotcheck"]]


def test_the_lock_pins_what_the_extra_asks_for_and_all_of_the_main_lock(project, extra):
    locked, main = pins(project, LOCK), pins(project, "requirements.lock")
    for need in extra:
        (version,) = locked[canonicalize_name(need.name)]
        assert Version(version) in need.specifier
    assert {name: locked.get(name) for name in main} == main


def test_the_main_environment_needs_neither_torch_nor_transformers(project):
    assert not {"torch", "transformers"} & pins(project, "requirements.lock").keys()


def test_the_lock_names_no_place_to_download_from_and_no_packages_of_one_kind_of_gpu(project):
    text = (project / LOCK).read_text()
    assert not re.search(r"://|^\s*-|@|--hash|^(nvidia|cuda|triton)", text, re.MULTILINE)


def test_the_conda_environment_has_the_versions_of_the_lock(project):
    environment = yaml.safe_load((project / "workflow/envs/spotcheck.yaml").read_text())
    locked = pins(project, LOCK)
    conda = [each for each in environment["dependencies"] if isinstance(each, str)]
    (pip,) = [each["pip"] for each in environment["dependencies"] if isinstance(each, dict)]
    versions = dict(each.split("=") for each in conda if each not in ("pip", "python=3.11"))
    versions |= dict(each.split("==") for each in pip if "==" in each)
    assert {name: {version} for name, version in versions.items()} == {name: locked[name] for name in versions}


def test_commands_of_the_workflow_start_without_torch(project):
    from servestudy.code_files import code_files

    for module in ("servestudy.cli", "servestudy.spotcheck.analyse", "servestudy.spotcheck.measure"):
        for path in code_files(module):
            if path.name in ("transformers_cb.py", "attention.py"):
                continue
            top = re.findall(r"^(?:import|from) (torch|transformers|vllm)\b", path.read_text(), re.MULTILINE)
            assert not top, f"{path} imports {top}"

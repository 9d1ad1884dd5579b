"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PYTHON = {"python_version": "3.11", "python_full_version": "3.11.13", "implementation_name": "cpython"}


@pytest.fixture(scope="module")
def locked(project: Path) -> dict[str, Version]:
    """Name -> version of what the lock installs under Python 3.11."""
    lines = (project / "requirements.lock").read_text().splitlines()
    requirements = [Requirement(line) for line in lines]
    wanted = [each for each in requirements if each.marker is None or each.marker.evaluate(PYTHON)]
    versions = {}
    for each in wanted:
        (pin,) = each.specifier
        assert pin.operator == "==", f"{each} is not pinned"
        assert canonicalize_name(each.name) not in versions, f"{each.name} is pinned twice"
        versions[canonicalize_name(each.name)] = Version(pin.version)
    return versions


@pytest.fixture(scope="module")
def declared(project: Path) -> dict[str, Requirement]:
    """Name -> requirement in pyproject.toml, those of the tests included."""
    table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    requirements = map(Requirement, table["dependencies"] + table["optional-dependencies"]["dev"])
    return {canonicalize_name(each.name): each for each in requirements}


def test_lock_pins_what_pyproject_declares(locked, declared):
    assert declared.keys() <= locked.keys()
    unfit = [str(need) for name, need in declared.items() if locked[name] not in need.specifier]
    assert not unfit, "requirements.lock is older than pyproject.toml: run `make lock`"


def test_lock_names_no_place_to_download_from(project):
    text = (project / "requirements.lock").read_text()
    assert not re.search(r"://|^\s*-|@|--hash", text, re.MULTILINE)


def test_conda_environment_has_the_versions_of_the_lock(project, locked, declared):
    environment = yaml.safe_load((project / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge", "bioconda"]
    conda = [each for each in environment["dependencies"] if isinstance(each, str)]
    pip = [each for each in environment["dependencies"] if isinstance(each, dict)]
    (by_pip,) = [each["pip"] for each in pip]
    assert by_pip.pop() == "-e ."
    versions = dict(each.split("=") for each in conda if each != "pip")
    assert versions.pop("python") == PYTHON["python_version"]
    versions |= dict(each.split("==") for each in by_pip)  # what conda-forge does not have
    assert versions == {name: str(locked[name]) for name in declared}

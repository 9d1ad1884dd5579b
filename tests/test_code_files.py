"""The files that a workflow step depends on follow from the imports in the source text."""

from pathlib import Path

import pytest

from servestudy import code_files as module
from servestudy.code_files import PACKAGE, PLUMBING, code_files


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An invented package `servestudy`, of which only the text counts."""
    files = {
        "__init__.py": "",
        "errors.py": "",
        "leaf.py": "import numpy\n",
        "stage/__init__.py": "from servestudy import leaf\n",
        "stage/one.py": "from servestudy.errors import UserError\nfrom servestudy.stage import two\n",
        "stage/two.py": "def late():\n    import servestudy.stage.three\n",
        "stage/three.py": "from servestudy.stage.one import CONSTANT\n",
        "other.py": "raise RuntimeError('imported')\n",
    }
    for name, text in files.items():
        path = tmp_path / "servestudy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "servestudy")
    for cached in (module._file, module._imports):
        cached.cache_clear()
    yield tmp_path / "servestudy"
    for cached in (module._file, module._imports):
        cached.cache_clear()


def names(package: Path, *modules: str) -> list[str]:
    return [path.relative_to(package).as_posix() for path in code_files(*modules)]


def test_imports_are_followed_in_circles_and_into_functions(package):
    stage = ["leaf.py", "stage/__init__.py", "stage/one.py", "stage/three.py", "stage/two.py"]
    assert names(package, "servestudy.stage.one") == stage
    assert names(package, "servestudy.leaf") == ["leaf.py"]
    assert names(package, "servestudy.other", "servestudy.leaf") == ["leaf.py", "other.py"]


def test_module_that_is_not_there(package):
    with pytest.raises(ModuleNotFoundError, match=r"servestudy\.stage\.four"):
        code_files("servestudy.stage.four")


def test_plumbing_is_there_and_left_out():
    files = {PACKAGE.parent / name.replace(".", "/") for name in PLUMBING - {"servestudy"}}
    assert all(file.with_suffix(".py").is_file() for file in files)
    assert not set(code_files("servestudy.windows.freeze")) & {file.with_suffix(".py") for file in files}


def test_a_scheduler_is_made_of_its_own_file_and_what_it_shares():
    published = PACKAGE / "schedulers/published"
    edf = code_files("servestudy.schedulers.published.edf")
    assert published / "edf.py" in edf
    assert published / "greedy.py" in edf
    assert published / "fifo.py" not in edf

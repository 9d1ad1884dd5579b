"""The shipped configuration in a folder of its own, to be broken by tests."""

import shutil
from pathlib import Path

import pytest

from servestudy.config import check_run, run_layers
from servestudy.errors import UserError

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

"""Fixtures that several test files use."""

from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def project() -> Path:
    """The project's root folder."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the project; tests that need it skip where it is absent."""
    folder = PROJECT.parent / "shared"
    if not (folder / "goldens").is_dir():
        pytest.skip(f"reference data not found: {folder}")
    return folder

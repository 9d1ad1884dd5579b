"""Fixtures that several test files use."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from servestudy.traces.registry import load_sources
from servestudy.traces.synthesize import synthesize
from servestudy.windows.freeze import freeze
from servestudy.windows.frozen import FrozenWindow, read_windows

PROJECT = Path(__file__).parents[1]
LONGEST_FIRST = ("test_workflow.py", "test_workflow_mistakes.py", "test_jumping_equals_stepping.py")


def pytest_collection_modifyitems(config, items) -> None:
    """Where several processes share the test files, those that take longest start first, so that none ends late."""
    if hasattr(config, "workerinput"):
        order = {name: place for place, name in enumerate(LONGEST_FIRST)}
        items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_terminal_summary(terminalreporter) -> None:
    """Print what the tests counted, and how many did not run for want of reference data."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    facts = [value for r in reports for name, value in getattr(r, "user_properties", []) if name == "fact"]
    skipped = terminalreporter.stats.get("skipped", [])
    without_data = [report for report in skipped if "reference data not found" in str(report.longrepr)]
    if without_data:
        facts.append(f"NOT CHECKED: {len(without_data)} tests skipped, reference data not found")
    if facts:
        terminalreporter.section("facts")
        for line in dict.fromkeys(facts):
            terminalreporter.line(line)


@pytest.fixture
def state_fact(record_property) -> Callable[[str], None]:
    """Call it with a line that the end of the test run shall state."""
    return partial(record_property, "fact")


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


def freeze_source(source_id: str, trace: Path, folder: Path) -> list[FrozenWindow]:
    """Up to 40 windows of a raw trace by the study's rule."""
    source = load_sources(PROJECT / "config/sources.tsv")[source_id]
    out = folder / f"{source_id}.parquet"
    freeze(source, trace, out, folder / f"{source_id}.csv", 10, 30, 0.001)
    return read_windows(out)


@pytest.fixture(scope="session")
def embedded_windows(tmp_path_factory) -> dict[str, list[FrozenWindow]]:
    """The windows of the embedded traces, by source."""
    folder = tmp_path_factory.mktemp("embedded")
    windows = {}
    for source_id in ("azure_like", "bailian_like", "burstgpt_like"):
        synthesize(source_id, folder / source_id)
        windows[source_id] = freeze_source(source_id, folder / source_id, folder)
    return windows


@pytest.fixture(scope="session")
def real_windows(shared, tmp_path_factory) -> dict[str, list[FrozenWindow]]:
    """The windows of the real traces that the reference data hold, by source."""
    folder = tmp_path_factory.mktemp("real")
    files = {
        "azure_2023_conv": "azure_2023/AzureLLMInferenceTrace_conv.csv",
        "azure_2023_code": "azure_2023/AzureLLMInferenceTrace_code.csv",
        "mooncake_conversation": "mooncake/conversation_trace.jsonl",
    }
    return {source_id: freeze_source(source_id, shared / "traces" / path, folder) for source_id, path in files.items()}

"""docs/ADD_A_SCHEDULER.md and docs/ADD_A_TRACE.md work as pasted."""

import re
import shlex

import pyarrow.parquet as pq
import pytest
from made_runs import first_requests, write_run

from servestudy.cli import main
from servestudy.evaluate.findings import KINDS
from servestudy.evaluate.loading import scheduler_from_file
from servestudy.files import sha256_of
from servestudy.published_model import PUBLISHED_MODEL
from servestudy.serving_model import load_serving_model
from servestudy.traces.column_map import parse_columns
from servestudy.traces.registry import COLUMNS


def blocks(text, language):
    """Code blocks of a page, without the blanks in front of indented ones."""
    found = re.findall(r"^( *)```(.*?)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{blanks}", "", block, flags=re.MULTILINE) for blanks, name, block in found if name == language]


def commands(text):
    """The servestudy commands of a page, as lists of arguments."""
    lines = "\n".join(blocks(text, "")).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("servestudy ")]


@pytest.fixture
def scheduler_page(project):
    return (project / "docs/ADD_A_SCHEDULER.md").read_text(encoding="utf-8")


def test_the_example_scheduler_runs_as_pasted(scheduler_page, embedded_windows, tmp_path, monkeypatch, capsys):
    (example,) = blocks(scheduler_page, "python")
    assert len(example.splitlines()) <= 40
    (tmp_path / "patient.py").write_text(example)
    windows = {
        source: [first_requests(window, 50) for window in of_source[:2]]
        for source, of_source in embedded_windows.items()
        if source != "bailian_like"
    }
    write_run(tmp_path / "results/embedded", windows, [PUBLISHED_MODEL, load_serving_model()])
    monkeypatch.chdir(tmp_path)
    scheduler_from_file.cache_clear()
    first, _, timeline = commands(scheduler_page)
    assert main([*first, "--processes", "1", "--regions", "HIGH_PRESSURE"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("4 of 4 cells came to an end") == 2
    assert printed.count("nothing wrong was found in it") == 2
    assert (tmp_path / "report_card_PatientShortestFirst.html").is_file()
    timeline[timeline.index("--window") + 1] = "1"
    assert main(timeline) == 0
    assert (tmp_path / "timeline.json").is_file()
    assert (tmp_path / "timeline.svg").is_file()


def test_the_page_lists_every_finding(scheduler_page):
    listed = re.findall(r"^\| (`.*?`) \|", scheduler_page, re.MULTILINE)
    assert [name.strip("`") for cell in listed for name in cell.split(", ")] == list(KINDS)


def test_the_example_trace_is_frozen_as_the_page_says(project, tmp_path, monkeypatch):
    page = (project / "docs/ADD_A_TRACE.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mirror/my_trace/requests.csv"
    file.parent.mkdir(parents=True)
    sample = next(block for block in blocks(page, "") if block.startswith("id,"))
    _, *rows = sample.strip().splitlines()
    assert rows == ["a1,1767600000250,512,128", "a2,1767600000900,2048,16"]
    more = [f"b{i},{1767600001000 + 500 * i},{100 + i},{1 + i % 50}" for i in range(900)]
    file.write_text("\n".join([sample.strip(), *more]) + "\n")
    cells = dict.fromkeys(COLUMNS, "")
    for names, values in re.findall(r"^   \| (.*?) \| (.*?) \|$", page, re.MULTILINE):
        cells |= dict(zip(names.split(", "), re.findall(r"`(.*?)`", values), strict=False))
    cells |= {"sha256": sha256_of(file), "bytes": str(file.stat().st_size), "sampling_seed": "1"}
    cells |= dict.fromkeys(("licence", "redistribution", "citation"), "mine")
    assert parse_columns(cells["columns"]).unit == "ms"
    registry = tmp_path / "config/sources.tsv"
    registry.parent.mkdir()
    registry.write_text("\t".join(COLUMNS) + "\n" + "\t".join(cells[name] for name in COLUMNS) + "\n")
    fetch, freeze = (arguments for arguments in commands(page) if arguments[0] in ("fetch", "freeze"))
    assert main(fetch) == 0
    assert main(freeze) == 0
    table = pq.read_table("my_trace.parquet")
    assert table.num_rows % 200 == 0
    assert table.num_rows > 0

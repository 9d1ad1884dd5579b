"""The PDF of the paper: the same bytes from the same values, whatever the values; nothing is shown unexplained."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_paper import changed, made_tables, values_of, write_traceability

from servestudy.cli import main
from servestudy.items import FIGURE, ITEMS, TABLE
from servestudy.paper.typeset import shown_items
from servestudy.paper.values import READS

PDF = b"%PDF-"


@pytest.fixture
def folder(project: Path, tmp_path: Path, monkeypatch) -> Path:
    """A root with the source of the paper, the settings, and a list of what makes what."""
    root = tmp_path / "root"
    for name in ("paper", "config"):
        shutil.copytree(project / name, root / name)
    shutil.copy(project / "CITATION.cff", root)
    write_traceability(root / "traceability.csv")
    monkeypatch.chdir(root)
    return root


def arguments(folder: Path, out: str = "paper.pdf") -> list[str]:
    files = ["--values", "values.json", "--traceability", "traceability.csv", "--out", out]
    return ["paper", "--source", "paper/paper.typ", *files]


def test_a_second_build_has_the_same_bytes_and_takes_little_time(folder):
    values_of(folder, made_tables())
    began = time.process_time()
    assert main(arguments(folder)) == 0
    assert time.process_time() - began < 3, "of processor time, as other work on the machine is none of its own"
    command = [sys.executable, "-m", "servestudy.cli", *arguments(folder, "again.pdf")]
    subprocess.run(command, check=True, cwd=folder)
    assert (folder / "paper.pdf").read_bytes().startswith(PDF)
    assert (folder / "paper.pdf").read_bytes() == (folder / "again.pdf").read_bytes()


def test_other_values_give_another_paper(folder):
    tables = made_tables()
    values_of(folder, tables)
    assert main(arguments(folder)) == 0
    values_of(folder, changed(tables, "tiers/ablations", {"switched": "none"}, gain=2.5))
    assert main(arguments(folder, "other.pdf")) == 0
    assert (folder / "paper.pdf").read_bytes() != (folder / "other.pdf").read_bytes()


@pytest.mark.parametrize("holds", [True, False])
def test_either_branch_of_every_sentence_can_be_typeset(folder, holds):
    found = values_of(folder, made_tables())
    found["facts"] = dict.fromkeys(found["facts"], holds)
    (folder / "values.json").write_text(json.dumps(found))
    assert main(arguments(folder)) == 0


def test_a_run_of_one_model_can_be_typeset(folder):
    tables = {item: rows for item, rows in made_tables().items() if item != "audit/models"}
    values_of(folder, tables, models=("published",))
    assert main(arguments(folder)) == 0
    without_audit = {item: rows for item, rows in tables.items() if not item.startswith("audit/")}
    values_of(folder, without_audit, models=("serving",))
    assert main(arguments(folder)) == 0


def test_a_sentence_without_its_value_stops_the_build_and_names_it(folder, capsys):
    found = values_of(folder, made_tables())
    del found["values"]["reversals.n"]
    (folder / "values.json").write_text(json.dumps(found))
    assert main(arguments(folder)) == 1
    assert "the run has no value reversals.n" in capsys.readouterr().err
    assert not (folder / "paper.pdf").exists()


def test_a_value_of_an_item_that_nothing_explains_stops_the_build(folder, capsys):
    values_of(folder, made_tables())
    write_traceability(folder / "traceability.csv", but=("tiers/gains",))
    assert main(arguments(folder)) == 1
    assert "tiers/gains" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "complaint"), [("values.json", "values.json: not found"), ("traceability.csv", "traceability.csv: not")]
)
def test_a_missing_input_is_named(folder, capsys, file, complaint):
    values_of(folder, made_tables())
    (folder / file).unlink()
    assert main(arguments(folder)) == 1
    assert complaint in capsys.readouterr().err


def test_an_input_outside_the_root_is_refused(folder, tmp_path, capsys):
    values_of(folder, made_tables())
    outside = tmp_path / "values.json"
    (folder / "values.json").rename(outside)
    command = arguments(folder)
    command[command.index("values.json")] = str(outside)
    assert main(command) == 1
    assert f"{outside}: lies outside" in capsys.readouterr().err


def test_a_figure_that_is_given_is_shown(folder):
    values_of(folder, made_tables())
    assert main(arguments(folder)) == 0
    (folder / "figure.pdf").write_bytes((folder / "paper.pdf").read_bytes())
    (item, *_) = shown_items("paper")["figure"]
    assert main([*arguments(folder, "with.pdf"), "--figures", f"{item}=figure.pdf"]) == 0
    assert len((folder / "with.pdf").read_bytes()) > len((folder / "paper.pdf").read_bytes())


def test_what_the_paper_shows_exists_and_its_tables_are_read(project):
    shown = shown_items(project / "paper")
    assert [item for item in shown["figure"] if (FIGURE, item) not in ITEMS] == []
    assert [item for item in shown["table"] if (TABLE, item) not in ITEMS] == []
    assert set(shown["table"]) <= set(READS)
    assert len(shown["figure"]) >= 5

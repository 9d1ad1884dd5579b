"""Where figures and tables come from, and the README's list of them. A whole run is checked in test_workflow.py."""

import csv
import json
import re
from pathlib import Path

import pytest

from servestudy.cli import main
from servestudy.config import BASE, COMMAND_LINE, Layer
from servestudy.errors import UserError
from servestudy.items import ITEMS
from servestudy.readme_items import block, time_class
from servestudy.traceability import (
    TracedRun,
    claims_of,
    options_of,
    read_evidence,
    shown_in_notebooks,
    shown_in_paper,
    write_traceability,
)

RUN = TracedRun(
    Path("results/made"), Path("figures"), Path("tables"), ("published", "serving"), Path("data/spotcheck/cpu")
)
EVIDENCE = {
    Path("results/made/claims.csv"): {
        "of_agreement": ["results/made/statistics/published/agreement.parquet"],
        "of_ranking": ["results/made/statistics/published/ranking.parquet"],
        "of_a_test": ["test documents_only"],
    },
    Path("results/made/tiers/claims.csv"): {
        "of_two": ["results/made/tiers/published/speedups.parquet", "results/made/tiers/published/gains.parquet"],
    },
}


def notebook(path: Path, *cells: tuple[str, str]) -> Path:
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}))
    return path


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (("figure", "portability/tau_heatmap"), ["of_agreement"]),
        (("table", "portability/rankings"), ["of_ranking"]),
        (("table", "portability/schedulers"), []),  # reads the ranking for the names in it
        (("figure", "tiers/ablation"), ["of_two"]),
        (("table", "portability/claims"), ["of_agreement", "of_ranking", "of_a_test"]),
        (("table", "tiers/claims_of_tiers"), ["of_two"]),
        (("figure", "audit/tau_by_arm"), []),
        (("figure", "spotcheck/step_time"), []),
    ],
)
def test_claims_are_those_that_rest_on_what_an_item_is_made_of(shown, expected):
    item = ITEMS[shown]
    assert claims_of(item, RUN.inputs(item), EVIDENCE) == expected


def test_what_is_no_table_of_claims_is_an_error(tmp_path):
    path = tmp_path / "claims.csv"
    with pytest.raises(UserError, match=r"claims\.csv: no table of claims .*make it with `snakemake "):
        read_evidence([path])
    path.write_text("claim\nx\n")
    with pytest.raises(UserError, match="evidence"):
        read_evidence([path])


def test_a_notebook_shows_what_its_code_calls_and_not_what_its_text_mentions(tmp_path):
    first = notebook(tmp_path / "1.ipynb", ("code", 'run.figure("a/b")\nrun.table(\n    "a/b", rows=3)'))
    text = ("markdown", 'see `run.figure("a/c")`')
    second = notebook(tmp_path / "2.ipynb", text, ("code", "run.figure('a/b'); other_run.figure_of('a/d')"))
    assert shown_in_notebooks([second, first]) == {
        ("figure", "a/b"): [first.as_posix(), second.as_posix()],
        ("table", "a/b"): [first.as_posix()],
    }
    first.write_text("{}")
    with pytest.raises(UserError, match=r"1\.ipynb: not a notebook"):
        shown_in_notebooks([first])


def test_the_paper_shows_what_its_source_calls(tmp_path):
    source = tmp_path / "results.typ"
    source.write_text('#shown-figure("a/b", width: 8cm)\n#shown-table(\n  "a/c")\n#figure("a/d")\n')
    assert shown_in_paper([source]) == {("figure", "a/b"), ("table", "a/c")}


def test_the_options_of_a_run_are_those_that_give_its_configuration():
    base, other = Layer(BASE, {}), Layer("config/real.yaml", {})
    given = Layer(COMMAND_LINE, {"title": "my run", "windows": {"stage0": 1}})
    assert options_of([base]) == ""
    assert options_of([base, other]) == " --configfile config/real.yaml"
    pairs = " --config 'title=my run' 'windows={\"stage0\": 1}'"
    assert options_of([base, other, given]) == f" --configfile config/real.yaml{pairs}"
    assert options_of([other]) == " --configfile config/real.yaml --replace-workflow-config"


def test_a_missing_figure_is_an_error_that_says_what_makes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in EVIDENCE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("claim,evidence\n")
    made = RUN.results / "statistics/published/agreement.parquet"
    made.parent.mkdir(parents=True)
    made.write_bytes(b"")
    command = r"`snakemake figures/portability/tau_heatmap\.svg --cores 2`"
    with pytest.raises(UserError, match=rf"tau_heatmap\.svg: not found; make it with {command}"):
        write_traceability(RUN, [], [], "traceability.csv")
    assert not Path("traceability.csv").exists()


# The project's own notebooks, paper and README


def test_what_notebooks_and_paper_show_is_an_item(project):
    shown = shown_in_paper((project / "paper").rglob("*.typ")) | set(
        shown_in_notebooks((project / "notebooks").glob("*.ipynb"))
    )
    assert shown
    assert shown - ITEMS.keys() == set()


def test_the_list_in_the_readme_is_up_to_date_but_for_its_times(project, monkeypatch):
    monkeypatch.chdir(project)
    text = Path("README.md").read_text(encoding="utf-8")
    known = {time_class(seconds) for seconds in ("1", "30", "90", "undefined")}
    times = re.compile(rf"--cores 2` \| ({'|'.join(known)}) \|")

    listed = block(shown_in_notebooks(Path("notebooks").glob("*.ipynb")), {})
    assert times.sub("", listed) in times.sub("", text), "renew it: servestudy readme"


def test_the_list_is_put_between_its_marks(project, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    table = tmp_path / "traceability.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kind", "item", "time_s"])
        writer.writerows([["figure", "portability/tau_heatmap", "3.1"], ["table", "portability/rankings", "61.0"]])
    begin, end = block({}, {}).splitlines()[0], block({}, {}).splitlines()[-1]
    readme = tmp_path / "README.md"
    arguments = ["readme", "--traceability", str(table), "--readme", str(readme), "--notebooks", str(tmp_path)]
    readme.write_text("# Title\nno marks\n")
    assert main(arguments) == 1
    assert readme.read_text() == "# Title\nno marks\n"

    readme.write_text(f"# Title\n{begin}\nold\n{end}\nafter\n")
    assert main(arguments) == 0
    text = readme.read_text()
    assert text.startswith(f"# Title\n{begin}\n")
    assert text.endswith(f"{end}\nafter\n")
    assert "old" not in text
    assert "`snakemake figures/portability/tau_heatmap.svg --cores 2` | seconds |" in text
    assert "`snakemake tables/portability/rankings.csv --cores 2` | minutes |" in text
    assert text.count("--cores 2` |") == len(ITEMS)

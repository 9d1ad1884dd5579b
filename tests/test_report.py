"""The pages and captions of the HTML report. The report of a whole run is made in test_workflow.py."""

import base64
import re

import pytest
from docutils.core import publish_parts
from jinja2 import Environment, StrictUndefined

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.items import FIGURE, ITEMS
from servestudy.table_pages import ROWS, page

CONFIG = {
    "title": "made traces (synthetic)",
    "run": "made",
    "run_options": " --configfile config/made.yaml",
    "items": {item.name: {"text": item.text, "module": item.module} for item in ITEMS.values() if item.kind == FIGURE},
}


def rendered(text: str, **wildcards: str) -> str:
    """A caption as Snakemake makes it, but an unknown name is an error."""
    job = {"wildcards": wildcards, "config": CONFIG, "output": {"svg": "figures/made.svg"}}
    source = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(text)
    parts = publish_parts(source.render(snakemake=job), writer="html", settings_overrides={"halt_level": 2})
    return parts["html_body"]


@pytest.mark.parametrize("item", [item for item in ITEMS.values() if item.kind == FIGURE], ids=lambda item: item.name)
def test_the_caption_of_a_figure_has_unit_caveat_module_and_command(item, project):
    study, name = item.name.split("/")
    text = (project / f"workflow/report/{study}.rst").read_text(encoding="utf-8")
    caption = rendered(text, figure=name)
    assert re.search(r"<strong>Unit</strong>: \w", caption)
    assert "<strong>Caveat</strong>: " in caption
    assert item.module in caption
    words = " ".join(re.sub(r"<[^>]+>", "", caption).split())
    assert words.startswith(item.text[0].upper() + item.text[1:])
    assert words.endswith("snakemake figures/made.svg --cores 2 --configfile config/made.yaml.")


@pytest.mark.parametrize("study", ["portability", "audit", "tiers", "spotcheck"])
def test_captions_name_no_figure_that_is_not_there(study, project):
    text = (project / f"workflow/report/{study}.rst").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\w+)": ', text, re.MULTILINE)
    assert sorted(names) == sorted(name.split("/")[1] for kind, name in ITEMS if kind == FIGURE and study in name)


@pytest.mark.parametrize("name", ["tables", "notebooks", "paper", "traceability", "workflow"])
def test_other_captions_are_well_formed(name, project):
    text = (project / f"workflow/report/{name}.rst").read_text(encoding="utf-8")
    assert len(rendered(text, notebook="01_made")) > 100


def test_a_page_shows_the_table_and_holds_it(tmp_path):
    table = tmp_path / "made.csv"
    content = "trace_set,name,value\n" + "".join(f'made,"a <b>\n{n}",{n / 7}\n' for n in range(ROWS + 1))
    table.write_bytes(content.encode())
    text = page(table, "what <it> shows")
    assert "<h1>What &lt;it&gt; shows</h1>" in text
    assert "<p>trace set: made</p>" in text
    assert "<th>trace set</th>" not in text
    assert f"first {ROWS} of {ROWS + 1} rows" in text
    assert text.count("<tr>") == ROWS + 1
    assert "a &lt;b&gt;" in text
    assert '<td class="number">0.142857</td>' in text
    held = re.search(r'base64,([^"]+)"', text).group(1)
    assert base64.b64decode(held) == table.read_bytes()


def test_an_empty_or_missing_table_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"made\.csv: not found; make it with"):
        page(tmp_path / "made.csv", "")
    (tmp_path / "made.csv").write_text("")
    with pytest.raises(UserError, match=r"made\.csv: no table"):
        page(tmp_path / "made.csv", "")


def test_each_table_has_a_text_and_a_page(tmp_path, capsys):
    (tmp_path / "made.csv").write_text("a,b\n1,2\n")
    one = ["table-pages", str(tmp_path / "made.csv"), "--out", str(tmp_path / "made.html"), "--texts"]
    assert main([*one, "x", "y"]) == 1
    assert "1 tables, 2 texts, 1 pages" in capsys.readouterr().err
    assert main([*one, "x"]) == 0
    assert "<th>a</th>" in (tmp_path / "made.html").read_text()

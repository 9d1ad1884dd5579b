"""Every figure: its tables exist, it names traces and model, fits the page, gives the same bytes twice; the command."""

from importlib import import_module

import numpy as np
import pytest
from made_figure_tables import CONTEXT, draw, made_tables, svg

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.registry import FIGURES, draw_figure
from servestudy.plotting.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, Context, save
from servestudy.statistics import reversal_rules
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES


@pytest.fixture
def tables():
    return made_tables()


@pytest.mark.parametrize(("name", "table"), [(name, table) for name in FIGURES for table in FIGURES[name].reads])
def test_tables_and_columns_that_a_figure_reads_are_those_of_an_analysis(name, table):
    analysis = (ANALYSES | VARIANT_ANALYSES | WORKLOAD_ANALYSES)[table]
    assert set(FIGURES[name].reads[table]) <= set(import_module(analysis.module).SCHEMA.names)


@pytest.mark.parametrize("name", FIGURES)
def test_figure_names_its_traces_fits_the_page_and_has_the_same_bytes_twice(name, tables, tmp_path):
    figure = draw(name, tables)
    assert f"{CONTEXT.title}, {CONTEXT.model} model" in svg(figure, tmp_path)
    save(figure, [tmp_path / "f.pdf"])
    save(draw(name, tables), [tmp_path / "again.svg", tmp_path / "again.pdf"])
    for suffix in ("svg", "pdf"):
        assert (tmp_path / f"f.{suffix}").read_bytes() == (tmp_path / f"again.{suffix}").read_bytes()

    assert figure.get_figwidth() in (COLUMN_WIDTH_IN, PAGE_WIDTH_IN)
    assert figure.get_figheight() < 7
    figure.draw_without_rendering()
    box, page = figure.get_tightbbox(), figure.get_size_inches()  # of all text and legends
    assert np.all(box.min > -0.02)
    assert np.all(box.max < page + 0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_figure_without_any_defined_value_says_so(name, tables, tmp_path):
    for table in tables.values():
        for column in table.select_dtypes("float"):
            table[column] = np.nan
    tables["reversals"]["reversal_class"] = reversal_rules.UNDEFINED
    tables["discriminability"]["n"] = 0
    text = svg(draw(name, tables), tmp_path)
    assert "undef" in text


@pytest.mark.parametrize("name", [name for name in FIGURES if any("metric" in c for c in FIGURES[name].reads.values())])
def test_tables_without_the_primary_metric_are_an_error(name, tables):
    for key, table in tables.items():
        if "metric" in table:
            tables[key] = table[table["metric"] != PRIMARY_METRIC]
    with pytest.raises(UserError, match=f"no row of {PRIMARY_METRIC}"):
        draw(name, tables)


@pytest.mark.parametrize("name", FIGURES)
def test_region_that_a_run_lacks_is_no_error(name, tables):
    kept = {key: table[table["region"] != "KNEE"] if "region" in table else table for key, table in tables.items()}
    draw(name, kept).draw_without_rendering()


@pytest.fixture
def files(tables, tmp_path):
    for name, table in tables.items():
        table.to_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


def test_command_draws_a_figure(files):
    tables = ["--tables", f"agreement={files}/agreement.parquet", f"reversals={files}/reversals.parquet"]
    told = ["--title", "traces of mine", "--model", "published"]
    out = ["--out", f"{files}/f.svg", f"{files}/f.pdf"]
    assert main(["figure", "tau_and_reversals_by_region", *tables, *told, *out]) == 0
    assert "traces of mine, published model" in (files / "f.svg").read_text(encoding="utf-8")
    assert (files / "f.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reversals": "reversals.parquet"}, "it needs --tables agreement=FILE"),
        ({"agreement": "agreement.parquet", "reversals": "reversals.parquet"}, "it needs --tables agreement=FILE"),
        ({"agreement": "reversals.parquet"}, "no column tau_b, n_schedulers"),
        ({"agreement": "absent.parquet"}, "absent.parquet: not found"),
        ({"agreement": "broken.parquet"}, "broken.parquet: not a readable table"),
    ],
)
def test_wrong_tables_are_named(files, given, message):
    (files / "broken.parquet").write_text("nothing")
    paths = {table: files / file for table, file in given.items()}
    with pytest.raises(UserError, match=message):
        draw_figure("tau_heatmap", paths, "t", "m", [files / "f.svg"])
    assert not (files / "f.svg").exists()


@pytest.mark.parametrize("text", ["agreement", "=file", "agreement="])
def test_tables_are_given_by_name(text, capsys):
    with pytest.raises(SystemExit):
        main(["figure", "tau_heatmap", "--tables", text, "--title", "t", "--model", "m", "--out", "f.svg"])
    assert f"found {text!r}, must be NAME=FILE" in capsys.readouterr().err


def test_long_title_is_broken_into_lines(tables):
    figure = import_module(FIGURES["tau_heatmap"].module).draw(tables, Context("a long title " * 10, "published"))
    assert max(map(len, figure.get_suptitle().splitlines())) <= 3.4 * 16

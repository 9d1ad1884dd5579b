"""The figures of both engine models: what they show, undefined values, runs that lack something."""

from importlib import import_module

import numpy as np
import pytest
from made_figure_tables import SCHEDULERS, made, made_tables
from made_models import made_models

from servestudy.plotting.registry import AUDIT_FIGURES
from servestudy.plotting.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, Context, save

CONTEXT = Context("a trace set (synthetic)", "published and serving")
NAMES = [name for name in AUDIT_FIGURES if name.startswith("models")]


@pytest.fixture
def tables():
    """Of three sources; the serving model's values are other ones."""
    rng = np.random.default_rng(1)
    of_one = made_tables()
    of_one["ranking"] = made("metric", "source", "region").merge(
        made("window").rename(columns={"window": "scheduler"}).replace(dict(enumerate((*SCHEDULERS, "mine")))),
        how="cross",
    )
    of_one["ranking"]["mean"] = 0.0
    of_one["pair_difference"] = made("source", "region", difference=0.0, low=0.0, high=0.0)
    both = {f"{model}/{name}": table.copy() for name, table in of_one.items() for model in ("published", "serving")}
    for table in both.values():
        for column in table.select_dtypes("float"):
            table[column] = rng.random(len(table)).round(3)
    return both


def draw(name, tables):
    reads = AUDIT_FIGURES[name].reads
    return import_module(AUDIT_FIGURES[name].module).draw(
        {key: tables[key][list(reads[key])] for key in reads}, CONTEXT
    )


@pytest.mark.parametrize("name", NAMES)
def test_figure_names_both_models_fits_the_page_and_has_the_same_bytes_twice(name, tables, tmp_path):
    figure = draw(name, tables)
    save(figure, [tmp_path / "f.svg"])
    text = (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert f"{CONTEXT.title}, {CONTEXT.model} model" in text
    save(draw(name, tables), [tmp_path / "again.svg"])
    assert (tmp_path / "f.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert figure.get_figwidth() in (COLUMN_WIDTH_IN, PAGE_WIDTH_IN)
    assert figure.get_figheight() < 7
    box, page = figure.get_tightbbox(), figure.get_size_inches()
    assert np.all(box.min > -0.02)
    assert np.all(box.max < page + 0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "models_reversals"])
def test_figure_without_any_defined_value_says_so(name, tables, tmp_path):
    for table in tables.values():
        for column in table.select_dtypes("float"):
            table[column] = np.nan
    save(draw(name, tables), [tmp_path / "f.svg"])
    assert "undef" in (tmp_path / "f.svg").read_text(encoding="utf-8")


def panel(figure, title):
    (axes,) = (axes for axes in figure.axes if axes.get_title() == title)
    return axes


def test_tau_of_both_models_and_between_them():
    figure = draw("models_tau", made_models())
    texts = {a.get_title(): [t.get_text() for t in a.texts if t.get_text() != "undef."] for a in figure.axes[:3]}
    assert texts == {
        "published model, two sources": ["0.50"],
        "serving model, two sources": ["-0.25*"],
        "same source, published against serving": ["-1.00"],
    }


def test_tau_of_one_source_shows_the_comparison_of_the_models_alone():
    tables = made_models()
    tables |= {key: table[:0] for key, table in tables.items() if "agreement_intervals" in key}
    figure = draw("models_tau", tables)
    assert figure.axes[0].get_title() == "same source, published against serving"


def test_reversals_are_counted_by_model_and_told_apart(tables):
    figure = draw("models_reversals", made_models())
    knee = 2
    for model in ("published", "serving"):
        counts = np.array([text.get_text() for text in panel(figure, f"{model} model").texts]).reshape(5, 6)
        assert list(counts[:, knee]) == ["1", "0", "0", "1", "0"]
    bars = panel(figure, "the same or others?")
    heights = {bar.get_label(): [patch.get_height() for patch in bar][knee] for bar in bars.containers}
    assert heights == {"both models": 0, "published only": 1, "serving only": 1}


def test_cross_metric_map_has_published_below_and_serving_above_the_diagonal():
    figure = draw("models_cross_metric", made_models())
    texts = np.array([text.get_text() for text in figure.axes[0].texts]).reshape(11, 11)
    assert (texts[10, 9], texts[9, 10]) == ("0.12", "-0.38")
    assert texts[3, 3] == "\u2013"
    assert texts[0, 5] == "undef."


def test_difference_of_each_model_has_a_panel_of_its_own():
    figure = draw("models_difference", made_models())
    for model, expected in (("published", [0.25, -0.5]), ("serving", [0.5, 0.125])):
        axes = panel(figure, f"{model} model (scales differ)")
        shown = [line.get_ydata()[-1] for line in axes.lines if line.get_label().endswith("_made")]
        assert shown == expected


@pytest.mark.parametrize("without", [["serving"], ["published", "serving"]])
def test_a_model_without_the_pair_says_so(without):
    tables = made_models()
    tables |= {key: table[:0] for key, table in tables.items() if key in [f"{m}/pair_difference" for m in without]}
    figure = draw("models_difference", tables)
    figure.draw_without_rendering()
    for model in ("published", "serving"):
        texts = [text.get_text() for text in panel(figure, f"{model} model (scales differ)").texts]
        assert ("not both in this run" in texts) == (model in without)


def test_sample_complexity_has_a_column_for_each_model():
    figure = draw("models_sample_complexity", made_models())
    for model, probability in (("published", 0.95), ("serving", 0.5)):
        axes = panel(figure, f"exact order, {model}")
        assert {tuple(line.get_ydata()) for line in axes.lines[:2]} == {(probability,)}

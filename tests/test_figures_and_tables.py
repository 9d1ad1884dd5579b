"""The first figure and table: contents, trace set, undefined cells, same bytes twice."""

import numpy as np
import pandas as pd
import pytest

from servestudy.metrics import PRIMARY_METRIC
from servestudy.plotting.tau_heatmap import draw
from servestudy.statistics.agreement import SCHEMA
from servestudy.tables import write_frame
from servestudy.tabulation.tau_by_region import tabulate
from servestudy.workload import REGIONS

TITLE = "a trace set (synthetic)"


@pytest.fixture
def agreement(tmp_path):
    """Three source pairs; the last is undefined at LOW."""
    rows = [
        {
            "metric": metric,
            "region": region,
            "source_x": x,
            "source_y": y,
            "tau_b": np.nan if (region, x, y) == ("LOW", "b", "c") else 0.1 * number + 0.05 * place,
            "n_schedulers": 11,
            "n_excluded": 0,
        }
        for metric in (PRIMARY_METRIC, "mean_ttft")
        for number, region in enumerate(REGIONS)
        for place, (x, y) in enumerate([("a", "b"), ("a", "c"), ("b", "c")])
    ]
    frame = pd.DataFrame(rows).reindex(columns=SCHEMA.names)
    path = tmp_path / "agreement.parquet"
    write_frame(frame, SCHEMA, path)
    return path


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_heat_map_prints_every_value_and_names_its_traces(agreement, tmp_path):
    figure = draw(agreement, TITLE, [tmp_path / "f.svg", tmp_path / "f.pdf"])
    assert len(texts(figure)) == 18
    assert texts(figure).count("undefined") == 1
    assert "0.55" in texts(figure)
    svg = (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert TITLE in svg
    assert "11 schedulers, published model" in svg


def test_heat_map_has_the_same_bytes_twice(agreement, tmp_path):
    for name in ("first", "second"):
        draw(agreement, TITLE, [tmp_path / f"{name}.svg", tmp_path / f"{name}.pdf"])
    for suffix in ("svg", "pdf"):
        assert (tmp_path / f"first.{suffix}").read_bytes() == (tmp_path / f"second.{suffix}").read_bytes()


def test_heat_map_with_negative_and_without_any_value(agreement, tmp_path):
    frame = pd.read_parquet(agreement)
    for value in (-0.5, np.nan):
        frame["tau_b"] = value
        write_frame(frame, SCHEMA, tmp_path / "changed.parquet")
        figure = draw(tmp_path / "changed.parquet", TITLE, [tmp_path / "f.svg"])
        assert set(texts(figure)) == ({"-0.50"} if value == value else {"undefined"})


def test_table_by_region(agreement, tmp_path):
    tabulate(agreement, TITLE, tmp_path / "t.csv")
    table = pd.read_csv(tmp_path / "t.csv").set_index("statistic")
    assert list(table.columns) == ["trace_set", "model", *REGIONS]
    assert set(table["trace_set"]) == {TITLE}
    assert float(table.loc["min_tau_b", "KNEE"]) == pytest.approx(0.2)
    assert float(table.loc["mean_tau_b", "KNEE"]) == pytest.approx(0.25)
    assert float(table.loc["pairs_undefined", "LOW"]) == 1
    assert float(table.loc["max_tau_b", "LOW"]) == pytest.approx(0.05)

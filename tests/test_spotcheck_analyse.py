"""Analyses, figures and tables of measurements without a real engine, and of the committed one."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from made_engine import RECORD, SMALL, MadeEngine, made_episode

from servestudy.spotcheck import measure as measuring
from servestudy.spotcheck.analyse import SCHEMAS, analyse, write_csvs
from servestudy.spotcheck.effects import METRICS, agreement, effects, paired
from servestudy.spotcheck.measurements import collect, read_measurements
from servestudy.spotcheck.registry import ANALYSES, FIGURES, draw_figure, read_provenance
from servestudy.tables import read_table


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The tables of a measurement of a window of two sources each, whose rates are bracketed."""
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "LATE_S", 5.0)
        episodes = [made_episode(source) for source in ("azure_made", "burstgpt_made")]
        measuring.measure(episodes, SMALL, MadeEngine(), RECORD, folder / "out", 1e9, 1)
    for path in (folder / "out/calibration").glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"bracketed": True}))
    collect(folder / "out", folder / "data")
    return folder / "data"


@pytest.fixture(scope="module")
def analyses(measured, tmp_path_factory):
    """The folder of its analyses."""
    folder = tmp_path_factory.mktemp("analyses")
    analyse(measured, [], folder)
    return folder


def test_all_analyses_figures_and_tables_of_a_measurement(measured, analyses, tmp_path):
    for name, schema in SCHEMAS.items():
        assert read_table(analyses / f"{name}.parquet", schema).num_rows > 0
    origin = read_provenance(measured, committed=True)
    write_csvs(analyses, origin, tmp_path / "csv")
    table = pd.read_csv(tmp_path / "csv/effects.csv")
    assert set(table["measured"]) == {origin.text}
    assert "committed measurement: a made engine, CPU only (a made device)" in origin.text
    for name, figure in FIGURES.items():
        files = {table: analyses / f"{table}.parquet" for table in figure.reads}
        draw_figure(name, files, origin, [tmp_path / f"{name}.svg"])
        assert "committed measurement" in (tmp_path / f"{name}.svg").read_text()
    assert {path.stem for path in (tmp_path / "csv").iterdir()} == set(ANALYSES)


def test_analyses_of_the_same_measurement_have_the_same_bytes(measured, analyses, tmp_path):
    analyse(measured, [], tmp_path)
    for path in analyses.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_stored_steps_and_tokens_give_back_the_replay(measured):
    data = read_measurements(measured)
    cells = data.cells[data.cells["valid"]]
    assert len(cells)
    tokens = data.requests["token_steps"].map(len)
    assert (tokens == data.requests["output_tokens"]).all()
    first = data.requests["token_steps"].map(lambda steps: steps[0])
    assert (first >= 0).all()
    prefilled = data.requests.groupby(["source", "window_number", "variant", "load", "arm"])["prompt_tokens"].sum()
    computed = data.steps.groupby(["source", "window_number", "variant", "load", "arm"])["tokens"].sum()
    decodes = (
        data.requests.assign(d=tokens - 1).groupby(["source", "window_number", "variant", "load", "arm"])["d"].sum()
    )
    assert (computed == prefilled + decodes).all()


def values(slai: list[float], fcfs: list[float], bracketed=True) -> pd.DataFrame:
    rows = [
        {"source": "azure_made", "window_number": number, "variant": "main", "load": 1.05, "arm": arm, "repetition": 0}
        | dict.fromkeys(METRICS, value)
        | {"bracketed": bracketed, "held_decodes": 5, "decodes": 10}
        for arm, of_arm in (("slai", slai), ("fcfs", fcfs))
        for number, value in enumerate(of_arm)
    ]
    return pd.DataFrame(rows)


def test_an_effect_is_paired_by_window_and_a_smaller_time_wins():
    table = effects(values([0.9, 0.8, 0.95], [0.5, 0.6, 0.55])).set_index(["windows", "metric"]).loc["bracketed"]
    assert table.loc["anwg", "effect"] == pytest.approx(1 / 3)
    assert (table.loc["anwg", "winner"], table.loc["ttft_p50_s", "winner"]) == ("slai", "fcfs")
    assert table.loc["anwg", "low"] == pytest.approx(0.2)
    assert table.loc["anwg", "p"] == pytest.approx(0.001)
    assert table.loc["anwg", "held_share"] == 0.5


def test_windows_without_a_bracketed_rate_count_among_all_windows_only():
    table = effects(values([0.9, 0.8], [0.5, 0.6], bracketed=False)).set_index(["windows", "metric"])
    assert table["n_windows"][("bracketed", "anwg")] == 0
    assert table["winner"][("bracketed", "anwg")] == "undecided"
    assert table["n_windows"][("all", "anwg")] == 2


def test_one_window_decides_nothing_and_an_interval_about_zero_neither():
    assert math.isnan(paired(np.array([1.0]), np.array([0.0]), "anwg")["low"])
    assert paired(np.array([1.0]), np.array([0.0]), "anwg")["winner"] == "undecided"
    assert paired(np.array([0.4, 0.6, 0.5]), np.array([0.5, 0.5, 0.5]), "anwg")["winner"] == "undecided"


def test_agreement_names_what_is_unknown_and_has_the_study_beside_ours():
    table = agreement(effects(values([0.9, 0.8, 0.95], [0.5, 0.6, 0.55])), {})
    table = table[table["windows"] == "bracketed"].set_index("simulator")
    assert table.loc["published", "agreement"] == "simulator unknown"
    assert table.loc["study", "agreement"] == "disagrees"
    assert table.loc["study", "engine_effect"] == -0.0235


def test_the_committed_measurement_is_whole_and_names_no_machine(project):
    for folder in (project / "data/spotcheck").iterdir():
        data = read_measurements(folder)
        assert data.cells["valid"].any()
        text = json.dumps(data.provenance)
        assert "/" not in "".join(data.provenance["options"])
        assert not any(word in text for word in ("/home", "/root", "/tmp", "/usr", "hostname"))
        assert data.provenance["attention_self_test_error"] < 3e-2
        why = " ".join(data.cells["why"])
        assert "/" not in why

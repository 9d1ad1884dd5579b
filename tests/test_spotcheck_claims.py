"""Claims about a real engine, on made tables."""

import numpy as np
import pandas as pd
import pytest

from servestudy.claim_tests import hardware
from servestudy.claim_tests.evidence import Evidence, UndefinedError
from servestudy.spotcheck.analyse import WINDOWS
from servestudy.spotcheck.effects import AGREEMENT, EFFECTS
from servestudy.tables import write_frame

NAMES = {"spotcheck_effects": EFFECTS, "spotcheck_agreement": AGREEMENT, "spotcheck_windows": WINDOWS}


@pytest.fixture
def evidence(tmp_path):
    """Evidence of one table with these rows; columns that are not given are empty or 0."""

    def make(name: str, rows: list[dict], model: str = "published") -> Evidence:
        schema = NAMES[name]
        blank = {f.name: "" if f.type == "string" else False if f.type == "bool" else 0 for f in schema}
        write_frame(pd.DataFrame([blank | row for row in rows]), schema, tmp_path / "table.parquet")
        return Evidence({name: [tmp_path / "table.parquet"]}, model)

    return make


def effect(source: str, value: float, winner: str, n_windows: int = 4, load: float = 1.05) -> dict:
    key = {"source": source, "variant": "main", "load": load, "metric": "anwg", "windows": "bracketed"}
    return key | {"effect": value, "winner": winner, "n_windows": n_windows}


def test_the_same_winner_on_both_sources_holds_and_another_one_does_not(evidence):
    rows = [effect("azure_x", 0.2, "slai"), effect("burstgpt_x", 0.1, "slai"), effect("bailian_x", -0.1, "fcfs")]
    rows += [effect("azure_x", -9.0, "fcfs", load=0.9)]
    found = hardware.same_winner_on_engine(evidence("spotcheck_effects", rows), ["azure", "burstgpt"])
    assert (found.values, found.holds) == ({"azure": 0.2, "burstgpt": 0.1}, True)
    assert not hardware.same_winner_on_engine(evidence("spotcheck_effects", rows), ["azure", "bailian"]).holds


def test_an_undecided_source_leaves_the_direction_undefined(evidence):
    rows = [effect("azure_x", 0.2, "slai"), effect("burstgpt_x", 0.1, "undecided")]
    assert hardware.same_winner_on_engine(evidence("spotcheck_effects", rows), ["azure", "burstgpt"]).holds is None


def test_a_source_without_a_measured_window_is_undefined(evidence):
    rows = [effect("azure_x", np.nan, "undecided", 0), effect("burstgpt_x", 0.1, "slai")]
    with pytest.raises(UndefinedError, match="no window of azure_x"):
        hardware.same_winner_on_engine(evidence("spotcheck_effects", rows), ["azure", "burstgpt"])
    with pytest.raises(UndefinedError, match="no source stands for bailian"):
        hardware.same_winner_on_engine(evidence("spotcheck_effects", rows), ["bailian"])


def test_windows_without_a_rate_are_counted(evidence):
    rows = [{"bracketed": value} for value in (True, False, False)]
    found = hardware.pinned_windows(evidence("spotcheck_windows", rows))
    assert (found.values, found.holds) == ({"pinned": 2, "converged": 1, "of": 3}, True)


def test_each_engine_model_is_judged_by_its_own_rows(evidence):
    rows = [
        {"source": "a", "simulator": "published", "agreement": "disagrees"},
        {"source": "b", "simulator": "published", "agreement": "agrees"},
        {"source": "a", "simulator": "serving", "agreement": "agrees"},
        {"source": "b", "simulator": "serving", "agreement": "engine undecided"},
    ]
    rows = [row | {"windows": "bracketed"} for row in rows]
    published, serving = (
        hardware.simulator_names_winner(evidence("spotcheck_agreement", rows, model))
        for model in ("published", "serving")
    )
    assert (published.values, published.holds) == ({"agrees": 1, "of": 2}, True)
    assert (serving.values, serving.holds) == ({"agrees": 1, "of": 1}, False)
    with pytest.raises(UndefinedError, match="no source has a winner both"):
        hardware.simulator_names_winner(evidence("spotcheck_agreement", rows[3:], "serving"))

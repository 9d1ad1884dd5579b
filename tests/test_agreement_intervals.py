"""Intervals of agreement against a launcher that draws one resample at a time, to the last bit."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from slow_study import RESAMPLES, assert_agrees, compare, condition, example_values, launched

from servestudy.statistics import agreement, agreement_intervals, bootstrap
from servestudy.statistics.window_values import load_values
from servestudy.tables import read_table, write_frame


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


@pytest.mark.usefixtures("few_resamples")
def test_intervals_equal_the_slow_launcher(tmp_path):
    table = agreement_intervals.analyse(example_values())
    expected = launched()["comparisons"]
    assert len(table) == len(expected) == 54
    for row, (key, values) in zip(table.to_dict("records"), expected.items(), strict=True):
        assert (row["metric"], row["region"], row["source_x"], row["source_y"]) == key
        assert_agrees(row, values)
    assert 0 < table["resamples_dropped"].max() == RESAMPLES
    assert table["n_excluded"].sum() > 0
    write_frame(table, agreement_intervals.SCHEMA, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", agreement_intervals.SCHEMA).num_rows == 54


@pytest.mark.usefixtures("few_resamples")
def test_point_values_are_those_of_the_agreement_table():
    values = example_values(seed=2)
    shared_columns = [field.name for field in agreement.SCHEMA if field.name in agreement_intervals.SCHEMA.names]
    assert "n_excluded" in shared_columns
    pd.testing.assert_frame_equal(
        agreement_intervals.analyse(values)[shared_columns], agreement.analyse(values)[shared_columns]
    )


@pytest.mark.usefixtures("few_resamples")
def test_false_discovery_rate_is_over_the_source_pairs_of_a_metric_and_region():
    values = example_values(windows=(6, 6, 7), undefined=0.3)
    values.values["bailian_x"][3:] = values.values["azure_x"][3:]  # so that some independence is rejected
    table = agreement_intervals.analyse(values)
    for _, family in table.groupby(["metric", "region"]):
        p = family["tau_p"].to_numpy()
        tested = ~np.isnan(p)
        assert np.isnan(family["tau_p_adjusted"].to_numpy()[~tested]).all()
        if tested.any():
            adjusted = stats.false_discovery_control(p[tested])
            assert (family["tau_p_adjusted"].to_numpy()[tested] == adjusted).all()
        assert not family["tau_rejected"].to_numpy()[~tested].any()
        assert (family["tau_rejected"] == (family["tau_p_adjusted"] <= 0.05)).all()
    assert set(table["tau_rejected"]) == {True, False}


@pytest.mark.usefixtures("few_resamples")
def test_regions_that_are_absent_still_take_their_draws():
    """Two of six regions, as the study made public: the digits are those of the full run."""
    full = example_values(metrics=("arrival_normalized_weighted_goodput",))
    kept = [full.regions.index(region) for region in ("KNEE", "HIGH_PRESSURE")]
    part = type(full)(
        full.sources,
        ("KNEE", "HIGH_PRESSURE"),
        full.metrics,
        full.schedulers,
        full.windows,
        {source: array[kept] for source, array in full.values.items()},
    )
    complete = agreement_intervals.analyse(full).query("region in ['KNEE', 'HIGH_PRESSURE']")
    pd.testing.assert_frame_equal(agreement_intervals.analyse(part), complete.reset_index(drop=True))
    assert complete["tau_low"].lt(complete["tau_high"]).any()


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("fill", [0.5, np.nan])
def test_all_tied_and_all_undefined_are_shown_as_such(fill):
    values = example_values(windows=(3, 3, 3))
    for array in values.values.values():
        array[:] = fill
    table = agreement_intervals.analyse(values)
    assert table[["tau_b", "tau_low", "tau_high", "rho", "rho_low", "tau_p_adjusted"]].isna().all(axis=None)
    assert (table["resamples_dropped"] == RESAMPLES).all()
    assert not table["tau_rejected"].any()
    assert (table["n_schedulers"] == (0 if math.isnan(fill) else 6)).all()


@pytest.mark.usefixtures("few_resamples")
def test_one_window_one_scheduler_and_one_source():
    one_window = agreement_intervals.analyse(example_values(windows=(1, 1, 1), undefined=0))
    defined = one_window.dropna(subset="tau_b")
    assert (defined["tau_low"] == defined["tau_b"]).all()
    assert (defined["tau_high"] == defined["tau_b"]).all()
    assert len(defined) > 0
    one_scheduler = agreement_intervals.analyse(example_values(schedulers=("fifo",)))
    assert (one_scheduler["n_schedulers"] <= 1).all()
    assert one_scheduler["tau_b"].isna().all()
    one_source = agreement_intervals.analyse(example_values(sources=("a",), windows=(4,)))
    assert list(one_source.columns) == agreement_intervals.SCHEMA.names
    assert len(one_source) == 0


@pytest.mark.usefixtures("few_resamples")
def test_published_windows(shared, tmp_path):
    """Six published windows, in the study's window order: every number is that of the slow study."""
    published = pd.read_csv(shared / "goldens/anwg.csv").rename(columns={"policy": "scheduler", "anwg": "value"})
    published["source"] = published["window_id"].str.extract(r"^(.*?)_(?:stage0|pilot)")
    published["metric"] = "arrival_normalized_weighted_goodput"
    published.to_csv(tmp_path / "values.csv", index=False)
    values = load_values([tmp_path / "values.csv"])
    table = agreement_intervals.analyse(values).set_index(["region", "source_x", "source_y"])
    assert table["windows_x"].eq(2).all()
    rng = np.random.default_rng(0)
    for region in ("LOW", "PRE_KNEE", "KNEE", "POST_KNEE", "OVERLOAD", "HIGH_PRESSURE"):
        for pair in (("azure_llm_2024", "bailian_qwen"), ("azure_llm_2024", "burstgpt"), ("bailian_qwen", "burstgpt")):
            if region in values.regions:
                sides = [condition(values, source, region, values.metrics[0]) for source in pair]
                assert_agrees(table.loc[(region, *pair)], compare(*sides, rng, RESAMPLES))
            else:
                for _ in range(RESAMPLES):
                    rng.choice(2, size=2, replace=True)
                    rng.choice(2, size=2, replace=True)

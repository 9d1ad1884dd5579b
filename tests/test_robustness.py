"""Robustness families against a launcher that draws one resample at a time, and against plain means of taus."""

import math
from itertools import combinations

import numpy as np
import pytest
from slow_study import (
    FAMILIES,
    RESAMPLES,
    SPLITS,
    assert_agrees,
    condition,
    correlate,
    example_values,
    launched,
    ranking,
    write_window_index,
)

from servestudy.schedulers.registry import registered_schedulers
from servestudy.statistics import agreement, bootstrap, robustness, robustness_intervals
from servestudy.statistics.temporal_splits import read_window_index
from servestudy.tables import read_table, write_frame

DRAWING = ["PRIMARY_ONLY", "LEAVE_ONE_SOURCE_OUT", "LOAD_CALIBRATION_SENSITIVITY", "LEAVE_ONE_POLICY_FAMILY_OUT"]


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


@pytest.fixture
def window_index(tmp_path):
    return read_window_index(write_window_index(tmp_path / "index.csv"))


def mean_of_defined(taus):
    defined = [tau for tau in taus if not math.isnan(tau)]
    return float(np.mean(defined)) if defined else math.nan


def test_the_families_of_the_example_are_the_registered_ones():
    registered = registered_schedulers()
    assert {name: registered[name]["family"] for name in FAMILIES} == FAMILIES


@pytest.mark.usefixtures("few_resamples")
def test_intervals_equal_the_slow_launcher(window_index, tmp_path):
    table = robustness_intervals.analyse(example_values(), window_index)
    expected = launched()["robustness"]
    assert len(table) == len(expected) == 18 + 3 * 6 + 12 + 5 * 18
    for row, (key, values) in zip(table.to_dict("records"), expected.items(), strict=True):
        assert (row["family"], row["variant"], row["region"], row["source_x"], row["source_y"]) == key
        assert_agrees(row, values)
    write_frame(table, robustness_intervals.SCHEMA, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", robustness_intervals.SCHEMA).num_rows == len(table)


def test_means_are_those_of_the_comparisons(window_index, tmp_path):
    values = example_values()
    table = robustness.analyse(values, window_index)
    launch = launched()
    for row in table[table["family"].isin(DRAWING)].to_dict("records"):
        taus = [r["tau_b"] for key, r in launch["robustness"].items() if key[:2] == (row["family"], row["variant"])]
        assert (row["n_conditions"], row["n_conditions_undefined"]) == (len(taus), sum(map(math.isnan, taus)))
        assert row["mean_tau_b"] == mean_of_defined(taus)
        assert (row["min_tau_b"], row["max_tau_b"]) == (np.nanmin(taus), np.nanmax(taus))
    temporal = table[table["family"] == "TEMPORAL_SPLIT_SENSITIVITY"].set_index("variant")
    for source, rule, _ in SPLITS:
        taus = [r["tau_b"] for key, r in launch["temporal"].items() if key[:2] == (source, rule)]
        assert temporal.loc[f"{source} {rule}", "n_conditions"] == len(taus)
        assert temporal.loc[f"{source} {rule}", "mean_tau_b"] == mean_of_defined(taus)
    write_frame(table, robustness.SCHEMA, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", robustness.SCHEMA).num_rows == len(table)


def test_all_schedulers_are_the_headline():
    values = example_values(seed=5)
    headline = agreement.analyse(values)
    for row in robustness.analyse(values).query("variant == 'undefined left out by scheduler'").to_dict("records"):
        taus = headline[headline["metric"] == row["metric"]]
        assert row["mean_tau_b"] == mean_of_defined(taus["tau_b"])
        assert row["n_excluded"] == taus["n_excluded"].sum()


def test_undefined_values_by_scheduler_window_or_condition():
    values = example_values(seed=3, undefined=0.02)
    table = robustness.analyse(values).query("family == 'METRIC_DEFINITION_SENSITIVITY' and metric == 'mean_latency'")
    table = table.set_index("variant")
    windows, conditions, lost = [], [], [0, 0]
    for region in values.regions:
        for pair in combinations(values.sources, 2):
            sides = [condition(values, source, region, "mean_latency") for source in pair]
            complete = [[window for window in side if len(window) == 6] for side in sides]
            windows.append(correlate(*map(ranking, complete))[0])
            intact = all(len(values.windows[source]) == len(side) for source, side in zip(pair, complete, strict=True))
            conditions.append(windows[-1] if intact else math.nan)
            for source, side in zip(pair, complete, strict=True):
                missing = len(values.windows[source]) - len(side)
                lost[0] += 6 * missing
                lost[1] += 6 * len(values.windows[source]) * (missing > 0)
    by_window = table.loc["windows with undefined left out"]
    assert (by_window["mean_tau_b"], by_window["n_excluded"]) == (mean_of_defined(windows), lost[0])
    by_condition = table.loc["conditions with undefined left out"]
    assert (by_condition["mean_tau_b"], by_condition["n_excluded"]) == (mean_of_defined(conditions), lost[1])
    assert by_condition["n_conditions"] == 18
    assert by_condition["n_conditions_undefined"] == sum(map(math.isnan, conditions))
    assert 0 < by_condition["n_conditions_undefined"] < 18
    by_scheduler = table.loc["undefined left out by scheduler", "mean_tau_b"]
    assert len({by_scheduler, by_window["mean_tau_b"], by_condition["mean_tau_b"]}) == 3


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("fill", [0.5, np.nan])
def test_all_tied_and_all_undefined_have_no_mean(fill, window_index):
    values = example_values()
    for array in values.values.values():
        array[:] = fill
    table = robustness.analyse(values, window_index)
    assert table["mean_tau_b"].isna().all()
    assert (table["n_conditions_undefined"] == table["n_conditions"]).all()
    of_defined = table[~table["variant"].str.startswith("conditions with undefined")]
    below_two = of_defined["n_conditions"] if np.isnan(fill) else 0
    assert (of_defined["n_conditions_below_two"] == below_two).all()
    assert robustness_intervals.analyse(values, window_index)["tau_low"].isna().all()


@pytest.mark.usefixtures("few_resamples")
def test_foreign_schedulers_regions_and_a_single_source():
    foreign = robustness.analyse(example_values(schedulers=("lifo", "random", "fifo"), regions=("PEAK", "QUIET")))
    families = foreign.groupby("family", sort=False)["variant"].agg(list)
    assert families["LEAVE_ONE_POLICY_FAMILY_OUT"] == ["A_ARRIVAL_ORDER"]
    four = foreign.query("family == 'LOAD_CALIBRATION_SENSITIVITY'").iloc[0]
    assert four["n_conditions"] == 0
    assert math.isnan(four["mean_tau_b"])
    alone = robustness.analyse(example_values(sources=("a",), windows=(4,)))
    assert alone.query("family == 'PRIMARY_ONLY'")["n_conditions"].item() == 0
    intervals = robustness_intervals.analyse(example_values(sources=("a",), windows=(4,)))
    assert list(intervals.columns) == robustness_intervals.SCHEMA.names
    assert len(intervals) == 0
    one_scheduler = robustness.analyse(example_values(schedulers=("fifo",)))
    assert one_scheduler["mean_tau_b"].isna().all()
    assert (one_scheduler["n_conditions_below_two"] == one_scheduler["n_conditions"]).all()

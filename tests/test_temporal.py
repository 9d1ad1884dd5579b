"""Splits of windows in time and the agreement of their groups, against a launcher that draws one at a time."""

import numpy as np
import pandas as pd
import pytest
from slow_study import (
    BOUNDARY_EPOCH_S,
    RESAMPLES,
    SPLITS,
    START_S,
    assert_agrees,
    compare,
    condition,
    example_values,
    launched,
    write_window_index,
)

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.statistics import bootstrap, temporal
from servestudy.statistics.temporal_splits import in_study_order, read_window_index, temporal_splits
from servestudy.tables import read_table, write_frame


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


@pytest.fixture
def window_index(tmp_path):
    return read_window_index(write_window_index(tmp_path / "index.csv"))


def groups_of(splits, source, rule):
    (split,) = (split for split in splits if (split.source, split.rule) == (source, rule))
    return {name: places.tolist() for name, places in split.groups.items()}


def test_the_studys_splits(window_index):
    splits = temporal_splits(example_values(), window_index)
    made = [(s.source, s.rule, {n: g.tolist() for n, g in s.groups.items()}) for s in splits if s.published]
    assert made == SPLITS


def test_every_rule_is_applied_where_it_fits(window_index):
    splits = temporal_splits(example_values(), window_index)
    rules = ["tercile", "bisection", "position", "start_row"]
    assert [split.rule for split in splits if split.source == "bailian_x"] == rules
    assert [split.rule for split in splits if split.source == "azure_x"] == [*rules[:2], "calendar", *rules[2:]]
    assert groups_of(splits, "bailian_x", "bisection") == {"EARLY": [1, 3], "LATE": [0, 2, 4]}
    assert groups_of(splits, "bailian_x", "start_row") == {"EARLY": [1, 3], "LATE": [0, 2, 4]}
    assert groups_of(splits, "burstgpt_x", "start_row") == {"EARLY": [4, 5, 6], "LATE": [0, 1, 2, 3]}
    assert [split.published for split in splits if split.source == "bailian_x"] == [False, False, True, False]


def test_forty_windows_are_cut_as_in_the_study():
    values = example_values(sources=("burstgpt",), windows=(40,))
    times = np.random.default_rng(0).permutation(40)
    index = pd.DataFrame({"start_row": times, "time_s_min": times.astype(float)})
    index.index = pd.MultiIndex.from_product([["burstgpt"], values.windows["burstgpt"]])
    splits = temporal_splits(values, index)
    terciles = groups_of(splits, "burstgpt", "tercile")
    assert [len(group) for group in terciles.values()] == [13, 13, 14]
    assert sorted(times[terciles["MIDDLE"]]) == list(range(13, 26))
    assert terciles["LATE"] == sorted(terciles["LATE"])  # the study's order of windows is kept within a group


def test_equal_times_are_ordered_by_window_id():
    values = example_values(sources=("burstgpt",), windows=(12,))
    index = pd.DataFrame({"start_row": range(12), "time_s_min": 0.0})
    index.index = pd.MultiIndex.from_product([["burstgpt"], values.windows["burstgpt"]])
    names = [
        values.windows["burstgpt"][n]
        for n in groups_of(temporal_splits(values, index), "burstgpt", "bisection")["EARLY"]
    ]
    assert sorted(names) == sorted(values.windows["burstgpt"])[:6]
    assert "burstgpt_w11" in names


def test_a_split_with_an_empty_group_is_not_made(window_index):
    assert temporal_splits(example_values(windows=(1, 1, 1)), window_index) == []
    assert {split.rule for split in temporal_splits(example_values(windows=(2, 2, 2)), window_index)} == {
        "bisection",
        "calendar",
        "position",
        "start_row",
    }
    later = window_index.copy()
    later["time_s_min"] = BOUNDARY_EPOCH_S
    assert "calendar" not in [split.rule for split in temporal_splits(example_values(), later)]


def test_sources_without_a_published_counterpart_come_last():
    sources = ("mooncake_conversation", "bailian_like", "azure_2023_conv", "burstgpt", "azure_2023_code", "azurite")
    assert in_study_order(sources) == [
        "burstgpt",
        "azure_2023_code",
        "azure_2023_conv",
        "bailian_like",
        "azurite",
        "mooncake_conversation",
    ]


@pytest.mark.usefixtures("few_resamples")
def test_the_studys_splits_equal_the_slow_launcher(window_index, tmp_path):
    table = temporal.analyse(example_values(), window_index)
    published = table[table["published"]]
    expected = launched()["temporal"]
    assert len(published) == len(expected) == 18 + 6 + 6 + 6
    for row, (key, values) in zip(published.to_dict("records"), expected.items(), strict=True):
        assert (row["source"], row["rule"], row["region"], row["group_x"], row["group_y"]) == key
        assert_agrees(row, values)
    assert published["tau_low"].lt(published["tau_high"]).any()
    write_frame(table, temporal.SCHEMA, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", temporal.SCHEMA).num_rows == len(table)


@pytest.mark.usefixtures("few_resamples")
def test_other_splits_draw_from_a_fresh_generator_each(window_index):
    values = example_values()
    table = temporal.analyse(values, window_index).query("source == 'azure_x' and rule == 'bisection'")
    rng = np.random.default_rng(0)
    by_time = sorted(range(6), key=START_S["azure_x"].__getitem__)
    groups = [sorted(by_time[:3]), sorted(by_time[3:])]
    for row in table.to_dict("records"):
        windows = condition(values, "azure_x", row["region"], values.metrics[0])
        assert_agrees(row, compare(*([windows[n] for n in group] for group in groups), rng, RESAMPLES))


@pytest.mark.usefixtures("few_resamples")
def test_without_an_index_only_positions_split():
    table = temporal.analyse(example_values())
    assert set(table["rule"]) == {"position"}
    assert len(table) == 3 * 6


@pytest.mark.usefixtures("few_resamples")
def test_undefined_values_and_constant_groups_are_counted():
    values = example_values()
    values.values["azure_x"][:, 0, :, 0] = np.nan
    values.values["azure_x"][:, 0, 2, 4] = np.nan
    row = temporal.analyse(values).query("source == 'azure_x' and region == 'LOW'").iloc[0]
    assert (row["windows_x"], row["windows_y"], row["n_excluded"]) == (2, 3, 7)
    assert np.isnan(row["tau_b"])
    assert row["resamples_dropped"] == RESAMPLES
    assert len(temporal.analyse(example_values(windows=(1, 1, 1)))) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("start_row", "row"), "no column start_row"),
        (lambda text: text.replace("azure_x,azure_x_w1,1,", "azure_x,azure_x_w1,one,"), "row 2: start_row is one"),
        (lambda text: text.replace(",10.0", ","), "row 13: time_s_min is nan"),
        (lambda text: text + "azure_x,azure_x_w1,1,1.0\n", "row 19: window azure_x_w1 is listed twice"),
        (lambda text: text.replace("bailian_x_w3", "bailian_x_w9"), "lacks window bailian_x_w3 of bailian_x"),
    ],
)
def test_a_bad_window_index_is_one_clear_line(tmp_path, change, message):
    path = write_window_index(tmp_path / "index.csv")
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message):
        temporal_splits(example_values(), read_window_index(path))


def test_missing_index_and_missing_primary_metric_are_said(tmp_path):
    with pytest.raises(UserError, match="not found; give the window index"):
        read_window_index(tmp_path / "none.csv")
    with pytest.raises(UserError, match="no values of arrival_normalized_weighted_goodput"):
        temporal_splits(example_values(metrics=("mean_latency", "p95_latency")), None)


@pytest.mark.usefixtures("few_resamples")
def test_the_command_takes_the_index(tmp_path, window_index):
    values = example_values(undefined=0)
    rows = [
        (source, window, region, scheduler, metric, values.of(source, region, metric)[place, number])
        for source in values.sources
        for number, window in enumerate(values.windows[source])
        for region in values.regions
        for metric in values.metrics
        for place, scheduler in enumerate(values.schedulers)
    ]
    names = ["source", "window_id", "region", "scheduler", "metric", "value"]
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "values.csv", index=False)
    out = tmp_path / "temporal.parquet"
    command = ["statistics", "temporal", "--cells", str(tmp_path / "values.csv"), "--out", str(out)]
    assert main([*command, "--window-index", str(tmp_path / "index.csv")]) == 0
    expected = temporal.analyse(values, window_index)
    table = read_table(out, temporal.SCHEMA).to_pandas()
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert main([*command, "--window-index", str(tmp_path / "none.csv")]) == 1

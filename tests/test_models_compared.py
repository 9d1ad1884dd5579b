"""The two engine models side by side: the difference of the study's pair, reversals in common, tables, sentences."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from made_models import OTHER as EDF_FIFO
from made_models import PAIR as SLAI_VLLM
from made_models import A, B, difference, distinctness, made_models, ranking, reversals

from servestudy.metrics import PRIMARY_METRIC
from servestudy.model_names import models_read, of_both_models
from servestudy.models_compared import supported_reversals, tau_between_models
from servestudy.plotting.registry import AUDIT_FIGURES
from servestudy.statistics import pair_difference
from servestudy.statistics.registry import ANALYSES
from servestudy.statistics.reversal_rules import STABLE, SUPPORTED
from servestudy.statistics.window_values import WindowValues
from servestudy.tabulation.models_statements import compared, same_schedulers
from servestudy.tabulation.registry import AUDIT_TABLES, write_csv_table

SIDE_BY_SIDE = {name: item for name, item in (AUDIT_FIGURES | AUDIT_TABLES).items() if name.startswith("models")}
PAIR = pair_difference.PAIR


def values(*differences, regions=("KNEE",), schedulers=PAIR):
    """ANWG of 0.5 for the second scheduler, and of the differences by window on top for the first, in each region."""
    windows = {A: tuple(f"w{n}" for n in range(len(differences)))}
    first = 0.5 + np.array(differences, dtype=float)
    array = np.broadcast_to(np.stack([first, np.full(len(first), 0.5)]), (len(regions), 1, 2, len(first)))
    return WindowValues((A,), tuple(regions), (PRIMARY_METRIC,), schedulers, windows, {A: array.copy()})


# The pair


def test_equal_differences_have_an_interval_without_width():
    row = pair_difference.analyse(values(0.25, 0.25, np.nan, 0.25)).iloc[0]
    assert (row["n_windows"], row["difference"], row["low"], row["high"], row["sign"]) == (3, 0.25, 0.25, 0.25, 1)
    row = pair_difference.analyse(values(-0.25, -0.25)).iloc[0]
    assert (row["low"], row["high"], row["sign"]) == (-0.25, -0.25, -1)


def test_an_interval_that_touches_0_has_no_sign():
    assert pair_difference.analyse(values(0.0, 0.0)).iloc[0]["sign"] == 0
    row = pair_difference.analyse(values(-0.25, 0.25)).iloc[0]
    assert (row["low"], row["high"], row["sign"]) == (-0.25, 0.25, 0)


def test_without_a_common_window_the_difference_is_undefined():
    row = pair_difference.analyse(values(np.nan, np.nan)).iloc[0]
    assert (row["n_windows"], row["sign"]) == (0, 0)
    assert np.isnan([row["difference"], row["low"], row["high"]]).all()


def test_a_run_without_one_of_the_pair_has_no_row():
    table = pair_difference.analyse(values(0.25, schedulers=(PAIR[0], "fifo")))
    assert table.empty
    assert list(table) == pair_difference.SCHEMA.names


def test_an_interval_does_not_depend_on_the_other_load_regions():
    differences = np.random.default_rng(0).random(12)
    both = pair_difference.analyse(values(*differences, regions=("LOW", "KNEE")))
    one = pair_difference.analyse(values(*differences, regions=("KNEE",)))
    pd.testing.assert_frame_equal(both[both["region"] == "KNEE"].reset_index(drop=True), one)


# What is read


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_tables_and_columns_that_are_read_of_both_models_are_those_of_an_analysis(name):
    for key, columns in SIDE_BY_SIDE[name].reads.items():
        if key != "claims":
            schema = import_module(ANALYSES[key.partition("/")[2]].module).SCHEMA
            assert set(columns) <= set(schema.names), key
    assert models_read(SIDE_BY_SIDE[name].reads) == ["published", "serving"]


def test_an_analysis_without_a_models_name_is_of_the_published_model():
    assert models_read(["audit_agreement"]) == ["published"]
    assert models_read(["serving/ranking"]) == ["serving"]
    assert of_both_models({"ranking": ("mean",)}) == {"published/ranking": ("mean",), "serving/ranking": ("mean",)}


# What is the same


def test_reversals_are_the_same_if_region_sources_and_schedulers_are():
    published = reversals((SLAI_VLLM, SUPPORTED), (EDF_FIFO, SUPPORTED))
    elsewhere = reversals((EDF_FIFO, SUPPORTED)).assign(region="LOW")
    other_rule = reversals((EDF_FIFO, SUPPORTED)).assign(rule="oriented")
    other_metric = reversals((EDF_FIFO, SUPPORTED)).assign(metric="mean_ttft")
    serving = pd.concat([reversals((SLAI_VLLM, SUPPORTED), (EDF_FIFO, STABLE)), elsewhere, other_rule, other_metric])
    found = supported_reversals({"published": published, "serving": serving})
    assert (len(found.published), len(found.serving)) == (2, 2)
    assert found.both == {("KNEE", A, B, "slai_faithful", "vllm_faithful")}


@pytest.mark.parametrize(
    ("serving", "tau"),
    [
        ({"edf": 3.0, "fifo": 1.0, "slai_faithful": 2.0}, 1.0),
        ({"edf": 1.0, "fifo": 3.0, "slai_faithful": 2.0}, -1.0),
        ({"edf": 1.0, "fifo": 1.0, "slai_faithful": 1.0}, np.nan),
        ({"edf": 1.0, "fifo": np.nan, "slai_faithful": np.nan}, np.nan),
        ({"edf": 3.0, "fifo": 1.0, "multi_level_feedback": 9.0, "scorpio_style_slo_guard": 0.0}, 1.0),
    ],
)
def test_tau_between_the_models_is_of_the_primary_schedulers_of_both(serving, tau):
    published = ranking({"edf": 0.9, "fifo": 0.5, "slai_faithful": 0.7, "scorpio_style_slo_guard": 1.0})
    table = tau_between_models({"published": published, "serving": ranking(serving)})
    assert table[["source", "region"]].to_numpy().tolist() == [[A, "KNEE"]]
    assert table["tau_b"].item() == pytest.approx(tau, nan_ok=True)
    assert table["n_schedulers"].item() == sum(pd.notna(serving.get(name)) for name in ("edf", "fifo", "slai_faithful"))


# Tables


def written(name, tables, folder):
    for key, table in tables.items():
        (folder / key).parent.mkdir(exist_ok=True)
        table.to_csv(folder / f"{key}.csv") if key == "claims" else table.to_parquet(folder / f"{key}.parquet")
    files = {key: folder / f"{key}.{'csv' if key == 'claims' else 'parquet'}" for key in AUDIT_TABLES[name].reads}
    write_csv_table(name, files, "made (synthetic)", "published and serving", folder / "out.csv")
    return pd.read_csv(folder / "out.csv", keep_default_na=False, dtype=str)


def headline(tables, folder):
    return written("models", tables, folder).set_index("quantity")


def test_headline_of_both_models_and_its_sentences(tmp_path):
    table = headline(made_models(), tmp_path)
    row = table.loc["mean tau-b between two sources"]
    assert list(row[["published", "serving", "study_reported"]]) == ["0.5", "-0.25", "mean = 0.7"]
    assert row["statement"] == "Mean tau-b between two sources: 0.50 published, -0.25 serving, lower by 0.75."
    row = table.loc[f"tau-b of {A} and {B} at KNEE"]
    assert list(row[["published_low", "published_high", "serving_low", "serving_high"]]) == [
        "0.2",
        "0.8",
        "-0.5",
        "0.1",
    ]
    above = "comparisons of two sources with a tau-b whose interval is above 0"
    assert list(table.loc[above, ["published", "serving"]]) == ["1", "0"]
    assert table.loc["schedulers that are compared", "statement"] == (
        "Like for like: both models rank the same 3 primary schedulers."
    )
    assert table.loc[f"tau-b between the rankings of the two models, {A}", "published"] == "-1.0"
    assert table.loc["supported reversals", "statement"] == (
        "1 supported reversals under the published model, 1 under the serving model; 0 are the same."
    )
    of_pair = table.loc["supported reversals of slai_faithful and vllm_faithful"]
    assert list(of_pair[["published", "serving", "claim"]]) == ["1", "0", "portability.reversals_one_pair"]
    assert table.loc["supported reversals of edf and fifo", "serving"] == "1"
    assert list(table.loc["comparisons of two metrics with a negative tau-b", ["published", "serving"]]) == ["1", "2"]
    better = "share of comparisons of two metrics with another best scheduler"
    assert list(table.loc[better, ["published", "serving"]]) == ["0.5", "1.0"]
    first = table.loc[f"windows of {A} that recover the whole order in 90 % of draws"]
    assert list(first[["published", "serving"]]) == ["5", "never"]
    assert first["statement"].endswith(": 5 published, never serving.")


def test_which_model_has_the_pair_change_places(tmp_path):
    table = headline(made_models(), tmp_path)
    changed = "load regions in which slai_faithful is ahead of vllm_faithful on a source and behind it on another"
    assert list(table.loc[changed, ["published", "serving"]]) == ["1", "0"]
    pair = "ANWG of slai_faithful less vllm_faithful, {} at HIGH_PRESSURE".format
    assert list(table.loc[pair(A), ["serving", "serving_low", "serving_high"]]) == ["0.5", "0.25", "0.75"]
    assert table.loc[pair(A), "statement"].endswith(
        "ahead (+0.250) under the published model, ahead (+0.500) under the serving model, the same order."
    )
    assert table.loc[pair(B), "statement"].endswith(
        "behind (-0.500) under the published model, not told apart (+0.125) under the serving model, "
        "told apart in one model only."
    )


@pytest.mark.parametrize(
    ("serving", "verdict"),
    [((-0.5, -0.75, -0.25), "the opposite order."), ((np.nan, np.nan, np.nan), "not comparable.")],
)
def test_opposite_and_undefined_differences_are_told(tmp_path, serving, verdict):
    tables = made_models() | {"serving/pair_difference": difference((A, *serving), (B, *serving))}
    table = headline(tables, tmp_path)
    row = table.loc[f"ANWG of slai_faithful less vllm_faithful, {A} at HIGH_PRESSURE"]
    assert row["statement"].endswith(verdict)
    assert row["serving"] == ("undefined" if np.isnan(serving[0]) else "-0.5")


def test_headline_without_any_defined_value_says_so(tmp_path):
    tables = made_models()
    for table in tables.values():
        for column in table.select_dtypes("float"):
            table[column] = np.nan
    table = headline(tables, tmp_path)
    row = table.loc["mean tau-b between two sources"]
    assert list(row[["published", "serving"]]) == ["undefined", "undefined"]
    assert row["statement"] == "Mean tau-b between two sources: undefined published, undefined serving, the same."
    assert "mean tau-b of undefined, over 0 of 1" in table.loc[
        f"tau-b between the rankings of the two models, {A}", "statement"
    ]  # fmt: skip


def test_headline_of_one_source_compares_what_one_source_can(tmp_path):
    tables = made_models()
    for key, table in tables.items():
        if "source_x" in table:
            tables[key] = table[:0]
        elif "source" in table:
            tables[key] = table[table["source"] == A]
    table = headline(tables, tmp_path)
    assert table.loc["mean tau-b between two sources", "serving"] == "undefined"
    assert table.loc["supported reversals", "published"] == "0"
    assert table.loc[f"tau-b between the rankings of the two models, {A}", "serving"] == "-1.0"
    assert not any(B in quantity for quantity in table.index)


def test_headline_of_a_run_without_the_pair(tmp_path):
    tables = made_models()
    tables |= {key: table[:0] for key, table in tables.items() if "pair_difference" in key}
    table = headline(tables, tmp_path)
    assert not any("less vllm_faithful" in quantity for quantity in table.index)


@pytest.mark.parametrize(
    ("published", "serving", "end"),
    [
        (3, 5, "3 published, 5 serving, higher by 2."),
        (0.5, 0.5, "0.50 published, 0.50 serving, the same."),
        (0.5, 0.501, "0.50 published, 0.50 serving, a difference below 0.005."),
        (np.nan, 0.5, "undefined published, 0.50 serving."),
        ("never", "never", "never published, never serving, the same."),
    ],
)
def test_sentences_of_two_values(published, serving, end):
    assert compared("windows needed", published, serving) == f"Windows needed: {end}"


def test_models_that_rank_other_schedulers_are_not_like_for_like():
    assert same_schedulers(["edf", "fifo"], ["fifo", "mine"]) == (
        "Not like for like: the models rank other schedulers (only published: edf; only serving: mine)."
    )


def test_rankings_of_both_models(tmp_path):
    tables = made_models()
    tables["serving/ranking"] = ranking(
        {"edf": 0.4, "fifo": 0.4, "slai_faithful": np.nan, "multi_level_feedback": 0.9, "scorpio_style_slo_guard": 0.1}
    )
    table = written("models_rankings", tables, tmp_path)
    assert list(table["scheduler"]) == [
        "edf",
        "fifo",
        "multi_level_feedback",
        "scorpio_style_slo_guard",
        "slai_faithful",
    ]
    table = table.set_index("scheduler")
    assert list(table["role"]) == ["primary", "primary", "added, not of the study", "style approximation", "primary"]
    assert list(table["serving_rank"]) == ["1", "1", "not ranked", "not ranked", "undefined"]
    assert list(table.loc[["edf", "fifo", "slai_faithful"], "published_rank"]) == ["1", "3", "2"]
    assert table.loc["multi_level_feedback", "published_anwg"] == "not in this model"
    assert list(table.loc["slai_faithful", ["published_anwg", "serving_anwg"]]) == ["0.7", "undefined"]


def test_schedulers_are_the_same_if_they_are_equals_in_every_window(tmp_path):
    table = written("models_rankings", made_models(), tmp_path).set_index("scheduler")
    assert list(table.loc["edf", ["published_same_as", "serving_same_as"]]) == ["fifo", "none"]
    assert table.loc["slai_faithful", "published_same_as"] == "none"
    tables = made_models() | {"serving/distinctness": distinctness("edf = fifo", region="LOW")}
    table = written("models_rankings", tables, tmp_path).set_index("scheduler")
    assert table.loc["edf", "serving_same_as"] == "unknown"


def test_one_scheduler_with_a_value_has_no_rank(tmp_path):
    tables = made_models() | {"serving/ranking": ranking({"edf": 0.5, "fifo": np.nan, "slai_faithful": np.nan})}
    table = written("models_rankings", tables, tmp_path)
    assert set(table["serving_rank"]) == {"undefined"}

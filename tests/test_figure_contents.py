"""What each figure shows is what its tables say."""

import numpy as np
import pandas as pd
import pytest
from made_figure_tables import SOURCES, draw, made_tables, svg, texts
from made_values import made_values

from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.plotting import reversal_map, reversal_matrix, sample_complexity, slo_sensitivity, temporal_tau
from servestudy.plotting import tau_and_reversals_by_region as by_region
from servestudy.statistics import reversal_rules, separability_drivers, slo_persistence, temporal, temporal_splits
from servestudy.statistics import sample_complexity as sample_complexity_table
from servestudy.workload import REGIONS


@pytest.fixture
def tables():
    return made_tables()


def test_heat_map_prints_every_value(tables):
    tau = tables["agreement"]
    tau["tau_b"] = np.where(tau["source_x"] == "burstgpt_made", -0.5, 0.25)
    tau.loc[(tau["region"] == "LOW") & (tau["source_y"] == "made"), "tau_b"] = np.nan
    figure = draw("tau_heatmap", tables)
    assert texts(figure) == [*["0.25"] * 6, "undef.", *["0.25"] * 5, "undef.", *["-0.50"] * 5]
    assert figure.axes[0].images[0].get_clim() == (-0.5, 1)
    assert "3 schedulers" in figure.get_suptitle()


def test_classes_are_those_of_the_analysis():
    assert tuple(reversal_matrix.CLASS_LABELS) == reversal_rules.CLASSES
    named = (by_region.SUPPORTED, by_region.UNDEFINED, reversal_map.SUPPORTED, reversal_map.UNDEFINED)
    assert set(named) == {reversal_rules.SUPPORTED, reversal_rules.UNDEFINED}
    changes = set(reversal_rules.CLASSES) - {reversal_rules.STABLE, reversal_rules.UNDEFINED}
    assert set(reversal_map.SIGN_CHANGES) == set(by_region.COUNTED["sign change"]) == changes


def test_reversal_matrix_counts_both_rules(tables):
    reversals = tables["reversals"]
    reversals["reversal_class"] = reversal_rules.STABLE
    figure = draw("reversal_matrix", tables)
    assert texts(figure) == ["0"] * 18 + ["9"] * 6 + ["0"] * 6  # 3 pairs of sources by 3 of schedulers
    assert "9 comparisons a region" in figure.get_suptitle()
    assert "oriented" not in figure.get_suptitle()

    one = reversals.index[(reversals["rule"] == "oriented") & (reversals["region"] == "KNEE")][0]
    reversals.loc[one, "reversal_class"] = reversal_rules.SUPPORTED
    figure = draw("reversal_matrix", tables)
    assert texts(figure)[2] == "0\n[1]"
    assert texts(figure)[20] == "9\n[8]"
    assert "oriented" in figure.get_suptitle()


def test_reversal_map_counts_above_and_below_the_diagonal(tables):
    rows = tables["reversals"]
    rows["reversal_class"] = reversal_rules.STABLE
    of_pair = (rows["scheduler_a"] == "edf") & (rows["scheduler_b"] == "slai") & (rows["metric"] == PRIMARY_METRIC)
    here = rows.index[of_pair & (rows["rule"] == "published")]
    rows.loc[here[:3], "reversal_class"] = reversal_rules.SUPPORTED
    rows.loc[here[3:5], "reversal_class"] = [reversal_rules.WIDE, reversal_rules.MICROSCOPIC]
    of_other = (rows["scheduler_a"] == "edf") & (rows["scheduler_b"] == "fifo")
    rows.loc[of_other, "reversal_class"] = reversal_rules.UNDEFINED
    figure = draw("reversal_map", tables)
    assert texts(figure) == ["\u2013", "undef.", "3", "undef.", "\u2013", "0", "5", "0", "\u2013"]
    assert "18 comparisons" in figure.get_suptitle().replace("\n", " ")


def test_sample_complexity_draws_the_published_curves_and_the_threshold(tables):
    figure = draw("sample_complexity", tables)
    table = tables["sample_complexity"]
    for axes, criterion in zip(figure.axes, ("exact", "top1"), strict=True):
        for line, source in zip(axes.lines, SOURCES, strict=False):
            rows = table[(table["source"] == source) & (table["metric"] == PRIMARY_METRIC)]
            rows = rows[(rows["rule"] == "published") & (rows["criterion"] == criterion)]
            assert line.get_xydata().tolist() == rows[["n_windows", "probability"]].to_numpy().tolist()
        assert axes.lines[3].get_ydata() == [0.9, 0.9]
        assert len(axes.collections) == 3  # the bands
    assert sample_complexity.THRESHOLD == sample_complexity_table.THRESHOLD


def test_band_of_a_curve_is_the_wilson_interval_of_its_draws():
    rows = pd.DataFrame({"probability": [0.0, 0.5, np.nan, 1.0], "n_draws": 500})
    low, high = sample_complexity._wilson(rows)
    z2 = 1.959963984540054**2
    p, n = rows["probability"], 500
    centre, half = p + z2 / (2 * n), np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n**2)))
    np.testing.assert_allclose(low, (centre - half) / (1 + z2 / n), atol=1e-15)
    np.testing.assert_allclose(high, (centre + half) / (1 + z2 / n), atol=1e-15)


def test_intervals_stand_where_the_table_says(tables):
    figure = draw("tau_intervals", tables)
    rows = tables["agreement_intervals"]
    rows = rows[(rows["metric"] == PRIMARY_METRIC) & (rows["source_y"] == SOURCES[1])]
    for axes, (low, point, high) in zip(
        figure.axes, [("tau_low", "tau_b", "tau_high"), ("rho_low", "rho", "rho_high")], strict=True
    ):
        ends = [path[:, 1].tolist() for path in axes.collections[0].get_segments()]
        assert ends == rows[[low, high]].to_numpy().tolist()
        assert list(axes.lines[2].get_ydata()) == rows[point].tolist()


def test_undefined_point_is_a_word_in_its_place(tables):
    shares = tables["discriminability"]
    gone = (shares["source"] == "made") & (shares["region"] == "OVERLOAD") & (shares["counted"] == "condition")
    shares.loc[gone, ["share", "low", "high"]] = np.nan
    (axes,) = draw("non_tied_share", tables).axes
    (word,) = axes.texts
    assert word.get_text() == "undefined"
    assert 4 - 0.5 < word.get_position()[0] < 4 + 0.5


def test_metric_map_has_means_below_and_ranges_above_the_diagonal(tables):
    table = tables["cross_metric_agreement"]
    pair = table["metric_a"].isin([m.name for m in METRICS[:2]]) & table["metric_b"].isin([m.name for m in METRICS[:2]])
    assert pair.sum() == 18
    table.loc[pair, "tau_b"] = [np.nan, np.nan, -0.5, *[0.5] * 15]
    figure = draw("metric_tau_map", tables)
    assert texts(figure)[1] == "-0.50 to\n0.50"
    assert texts(figure)[11] == "0.44\n(2)"
    assert texts(figure)[0] == "\u2013"
    assert "18 conditions" in figure.get_suptitle()


def test_distinctness_shows_mean_and_range_over_windows(tables):
    above, below = draw("distinctness", tables).axes
    assert above.lines[2].get_ydata()[0] == pytest.approx(np.mean([1, 2, 3, 1]))
    assert above.collections[0].get_segments()[0][:, 1].tolist() == [1, 3]
    taus = tables["distinct_agreement"]
    first = taus[taus["source_y"] == SOURCES[1]]
    assert below.lines[0].get_ydata().tolist() == first["tau_b"].tolist()
    assert below.lines[1].get_ydata().tolist() == first["tau_b_distinct"].tolist()


def test_shares_by_region(tables):
    above, below = draw("tau_and_reversals_by_region", tables).axes
    rows = tables["reversals"]
    rows = rows[(rows["metric"] == PRIMARY_METRIC) & (rows["rule"] == "published")]
    supported = rows[rows["reversal_class"] == reversal_rules.SUPPORTED].groupby("region").size()
    heights = [bar.get_height() for bar in below.containers[1]]
    assert heights == pytest.approx([100 * supported[region] / 9 for region in REGIONS])
    tau = tables["agreement"]
    tau = tau[(tau["metric"] == PRIMARY_METRIC) & (tau["region"] == "LOW")]["tau_b"]
    assert above.lines[2].get_ydata()[0] == tau.mean()


def test_temporal_figure_shows_the_studys_splits_and_the_corrected_one(tables):
    figure = draw("temporal_tau", tables)
    legends = [axes.get_legend() for axes in figure.axes]
    shown = {legend.get_title().get_text(): [text.get_text() for text in legend.get_texts()] for legend in legends}
    assert shown == {
        "azure_made": ["calendar: before boundary and at or after boundary"],
        "burstgpt_made": ["thirds by time: early and late", "halves of the trace: early and late"],
        "made": ["halves of the trace: early and late"],
    }
    assert [axes.get_legend().get_title().get_text() for axes in figure.axes] == sorted(SOURCES)


def test_temporal_figure_knows_every_split():
    values = made_values(n_windows=(6, 6, 6))
    index = pd.DataFrame(
        {"start_row": range(18), "time_s_min": np.linspace(-5, 5, 18) + temporal_splits.BOUNDARY_EPOCH_S},
        index=pd.MultiIndex.from_tuples([(s, window) for s in values.sources for window in values.windows[s]]),
    )
    splits = temporal_splits.temporal_splits(values, index)
    assert {split.rule for split in splits} == set(temporal_tau.RULE_LABELS)
    assert {name for split in splits for name in split.groups} == set(temporal_tau.IN_TIME)


def test_temporal_figure_of_sources_with_one_window_each(tables, tmp_path):
    tables["temporal"] = temporal.SCHEMA.empty_table().to_pandas()
    assert "no source has windows to split" in svg(draw("temporal_tau", tables), tmp_path)


def test_descriptors_with_zeros_and_without_values(tables):
    features = tables["workload_features"]
    features.loc[0, "interarrival_p50_s"] = 0
    features.loc[[0, 5], "prompt_tokens_mean"] = np.nan
    features.loc[features["source"] == "made", "output_tokens_mean"] = np.nan
    figure = draw("descriptor_ecdf", tables)
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "log", "symlog", "log"]
    assert texts(figure, 0) == ["2 undefined"]
    assert texts(figure, 1) == ["4 undefined"]
    assert texts(figure, 2) == []
    assert [len(axes.lines) for axes in figure.axes] == [3, 3, 3, 3]


def test_drivers_are_ordered_by_importance_then_by_accuracy_alone(tables):
    drivers = tables["separability_drivers"]
    permuted, alone = (drivers["change"] == change for change in ("permuted", "alone"))
    drivers.loc[permuted, "fall"] = 0.0
    drivers.loc[permuted & (drivers["item"] == "feature_7"), "fall"] = 0.2
    drivers.loc[alone, "balanced_accuracy_mean"] = np.linspace(0.4, 0.9, alone.sum())
    figure = draw("separability_drivers", tables)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[:4] == ["feature_7", "feature_14", "feature_13", "feature_12"]
    assert len(names) == 12
    assert "12 of 15" in figure.get_suptitle()
    assert {"none", "permuted", "alone"} <= set(_changes())


def _changes():
    return separability_drivers.SCHEMA.field("change").metadata[b"meaning"].decode().replace(",", "").split()


def test_slo_figure_tells_the_two_intervals_and_the_multipliers_apart(tables):
    axes = draw("slo_sensitivity", tables).axes[0]
    table = tables["slo_agreement"]
    rows = table[(table["source"] == SOURCES[1]) & (table["multiplier"] == 40)]
    thin, bar = (axes.collections[6 + place] for place in (0, 1))  # two for each source and multiplier before it
    for lines, rule in ((thin, "independent"), (bar, "paired")):
        ends = [path[:, 1].tolist() for path in lines.get_segments()]
        assert ends == rows.loc[rows["rule"] == rule, ["tau_low", "tau_high"]].to_numpy().tolist()
    assert thin.get_linewidth()[0] < bar.get_linewidth()[0]
    labels = {line.get_label(): line for line in axes.lines if "made" in line.get_label()}
    assert [labels[f"burstgpt_made {n}x"].get_fillstyle() for n in (10, 40)] == ["full", "none"]
    assert labels["burstgpt_made 40x"].get_ydata().tolist() == rows.loc[rows["rule"] == "paired", "tau_b"].tolist()


def test_slo_figure_says_which_region_was_not_run(tables):
    tables["slo_agreement"] = tables["slo_agreement"].query("region != 'LOW'")
    assert texts(draw("slo_sensitivity", tables)) == ["not run"]


def test_slo_figure_counts_what_becomes_of_the_reversals(tables):
    outcomes = tables["slo_persistence"]
    outcomes["outcome"] = slo_persistence.PERSISTS
    there = outcomes.index[(outcomes["rule"] == "published") & (outcomes["multiplier"] == 40)]
    outcomes.loc[there[:1], "outcome"] = slo_persistence.DIRECTION_CHANGE
    below = draw("slo_sensitivity", tables).axes[1]
    assert [label.get_text() for label in below.get_yticklabels()] == ["10x", "40x"]
    assert [[bar.get_width() for bar in bars] for bars in below.containers] == [[4, 3], [0, 1], *[[0, 0]] * 3]
    assert texts(draw("slo_sensitivity", tables), 1) == ["4", "3", "", "1", *[""] * 6]


def test_slo_figure_without_a_supported_reversal(tables, tmp_path):
    tables["slo_persistence"] = tables["slo_persistence"][:0]
    assert "no supported reversal to follow" in svg(draw("slo_sensitivity", tables), tmp_path)


def test_slo_figure_knows_every_outcome():
    assert set(slo_sensitivity.OUTCOMES) == {*slo_persistence.OUTCOMES.values(), slo_persistence.DIRECTION_CHANGE}

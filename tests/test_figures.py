"""Every figure: its tables exist, it names traces and model, shows what the tables say, same bytes twice."""

from importlib import import_module
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from made_values import made_values

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.plotting import descriptor_ecdf, reversal_map, reversal_matrix, sample_complexity, temporal_tau
from servestudy.plotting import tau_and_reversals_by_region as by_region
from servestudy.plotting.registry import FIGURES, draw_figure
from servestudy.plotting.style import COLUMN_WIDTH_IN, PAGE_WIDTH_IN, Context, save
from servestudy.statistics import reversal_rules, separability_drivers, temporal, temporal_splits
from servestudy.statistics import sample_complexity as sample_complexity_table
from servestudy.statistics.registry import ANALYSES, WORKLOAD_ANALYSES
from servestudy.workload import REGIONS

CONTEXT = Context("a trace set (synthetic)", "published")
SOURCES = ("azure_made", "burstgpt_made", "made")
SCHEDULERS = ("edf", "fifo", "slai")
KEYS = {
    "metric": [PRIMARY_METRIC, "mean_ttft"],
    "region": list(REGIONS),
    "source": list(SOURCES),
    "rule": ["published", "oriented"],
    "criterion": ["exact", "top1", "top3"],
    "n_windows": [5, 10, 20],
    "counted": ["condition", "window"],
    "window": [0, 1, 2, 3],
}
PAIRS = {
    "source_x": SOURCES,
    "scheduler_a": SCHEDULERS,
    "metric_a": sorted(metric.name for metric in METRICS),
}
VALUES = {
    "reversal_class": reversal_rules.CLASSES,
    "n_schedulers": [3],
    "n_distinct": [1, 2, 3],
    "n_draws": [500],
    "n": [40],
}


def made(*keys, **columns):
    """One row for each combination of the keys (a pair where a key is the first of one), and columns of its values."""
    second = {"source_x": "source_y", "scheduler_a": "scheduler_b", "metric_a": "metric_b"}
    choices = [list(combinations(PAIRS[key], 2)) if key in PAIRS else [(value,) for value in KEYS[key]] for key in keys]
    names = [name for key in keys for name in ((key, second[key]) if key in second else (key,))]
    table = pd.DataFrame([sum(row, ()) for row in product(*choices)], columns=names)
    for name in columns.pop("cycled", ()):
        table[name] = [VALUES[name][place % len(VALUES[name])] for place in range(len(table))]
    for name, value in columns.items():
        table[name] = value
    return table


def made_tables():
    """A table of each analysis that a figure reads; the values are plausible, not computed."""
    rng = np.random.default_rng(0)

    def shares(table, *names):
        for name in names:
            table[name] = rng.random(len(table)).round(3)
        return table

    pairs = ("metric", "region", "source_x")
    splits = pd.DataFrame(
        [
            ("burstgpt_made", "tercile", True, "EARLY", "LATE"),
            ("burstgpt_made", "start_row", False, "EARLY", "LATE"),
            ("azure_made", "calendar", True, "AT_OR_AFTER_BOUNDARY", "BEFORE_BOUNDARY"),
            ("made", "position", False, "FIRST", "SECOND"),
            ("made", "start_row", False, "EARLY", "LATE"),
        ],
        columns=["source", "rule", "published", "group_x", "group_y"],
    )
    conditions = made("metric", "source", "region", "counted", cycled=["n"])
    drivers = [("none", "all"), *product(("permuted", "alone"), (f"feature_{n}" for n in range(15)))]
    return {
        "agreement": shares(made(*pairs, cycled=["n_schedulers"]), "tau_b"),
        "agreement_intervals": shares(made(*pairs), "tau_b", "tau_low", "tau_high", "rho", "rho_low", "rho_high"),
        "reversals": made("rule", *pairs, "scheduler_a", cycled=["reversal_class"]),
        "sample_complexity": shares(
            made("source", "metric", "rule", "criterion", "n_windows", cycled=["n_draws"]), "probability"
        ),
        "temporal": shares(splits.merge(made("region"), how="cross"), "tau_b", "tau_low", "tau_high"),
        "discriminability": shares(
            pd.concat([conditions, conditions.assign(source="all"), conditions.assign(region="all")])
            .drop_duplicates(["metric", "source", "region", "counted"])
            .reset_index(drop=True),
            *("share", "low", "high"),
        ),
        "cross_metric_agreement": shares(made("source", "region", "metric_a"), "tau_b"),
        "distinctness": made("source", "region", "window", cycled=["n_schedulers", "n_distinct"]),
        "distinct_agreement": shares(made("region", "source_x"), "tau_b", "tau_b_distinct"),
        "workload_features": shares(made("source", "window"), *descriptor_ecdf.DESCRIPTORS),
        "separability_drivers": shares(
            pd.DataFrame(drivers, columns=["change", "item"]).assign(folds=3),
            *("balanced_accuracy_mean", "balanced_accuracy_sd", "fall"),
        ),
    }


@pytest.fixture
def tables():
    return made_tables()


def draw(name, tables):
    """The figure from tables with the columns that the registry names, no other."""
    reads = FIGURES[name].reads
    return import_module(FIGURES[name].module).draw({key: tables[key][list(reads[key])] for key in reads}, CONTEXT)


def texts(figure, place=0):
    return [text.get_text() for text in figure.axes[place].texts]


def svg(figure, folder):
    save(figure, [folder / "f.svg"])
    return (folder / "f.svg").read_text(encoding="utf-8")


# Every figure


@pytest.mark.parametrize(("name", "table"), [(name, table) for name in FIGURES for table in FIGURES[name].reads])
def test_tables_and_columns_that_a_figure_reads_are_those_of_an_analysis(name, table):
    analysis = {**ANALYSES, **WORKLOAD_ANALYSES}[table]
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


# What they show


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


# The command


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
        ({"agreement": "reversals.parquet"}, "no column n_schedulers, tau_b"),
        ({"agreement": "absent.parquet"}, "absent.parquet: not found"),
        ({"agreement": "broken.parquet"}, "broken.parquet: not a readable Parquet file"),
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

"""Rankings and their agreement, against hand-made and slow ones; ties, undefined values, constant sides."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from servestudy.errors import UserError
from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.statistics import agreement, ranking
from servestudy.statistics.agreement import compare, top_overlap
from servestudy.statistics.window_values import METRIC_NAMES, VALUE_COLUMNS, load_values, mean_of_defined
from servestudy.workload import REGIONS


def long_table(sources=("a", "b", "c"), schedulers=("s1", "s2", "s3", "s4"), windows=5, seed=0):
    rng = np.random.default_rng(seed)
    keys = itertools.product(sources, range(windows), REGIONS, schedulers, METRIC_NAMES)
    rows = [(s, f"{s}_w{w}", region, name, metric, rng.integers(0, 200) / 200) for s, w, region, name, metric in keys]
    return pd.DataFrame(rows, columns=VALUE_COLUMNS)


@pytest.fixture
def load(tmp_path):
    """load(table, ...) writes the table and loads it as window values."""

    def write_and_load(table, **options):
        table.to_parquet(tmp_path / "values.parquet")
        return load_values([tmp_path / "values.parquet"], **options)

    return write_and_load


def test_a_ranking_value_is_the_mean_over_windows_in_their_order(load):
    table = long_table(windows=40)
    result = ranking.analyse(load(table))
    assert list(result.columns) == ranking.SCHEMA.names
    result = result.set_index(["source", "region", "metric", "scheduler"])
    for key in (("a", "LOW", PRIMARY_METRIC, "s1"), ("c", "KNEE", "p95_ttft", "s4")):
        rows = table.set_index(["source", "region", "metric", "scheduler"]).loc[[key]]
        assert result.loc[key, "mean"] == np.mean(rows["value"].to_numpy())
        assert result.loc[key, "windows_defined"] == 40


def test_undefined_windows_are_left_out_and_counted(load):
    table = long_table()
    of_a = (table["source"] == "a") & (table["metric"] == "mean_latency")
    table.loc[of_a & (table["scheduler"] == "s1") & table["window_id"].isin(["a_w0", "a_w1"]), "value"] = np.nan
    table.loc[of_a & (table["scheduler"] == "s2"), "value"] = np.nan
    values = load(table)
    result = ranking.analyse(values).set_index(["source", "region", "metric", "scheduler"])
    row = result.loc["a", "LOW", "mean_latency", "s1"]
    assert (row["windows_defined"], row["windows_undefined"]) == (3, 2)
    assert math.isnan(result.loc["a", "LOW", "mean_latency", "s2"]["mean"])
    pairs = agreement.analyse(values).set_index(["metric", "region", "source_x", "source_y"])
    row = pairs.loc["mean_latency", "LOW", "a", "b"]
    assert (row["n_schedulers"], row["n_excluded"]) == (3, 7)


def test_agreement_equals_scipy_on_sorted_names(load):
    values = load(long_table())
    means = ranking.analyse(values)
    result = agreement.analyse(values)
    assert list(result.columns) == agreement.SCHEMA.names
    assert len(result) == len(METRICS) * len(REGIONS) * 3
    for row in result.itertuples():
        this = means[(means["region"] == row.region) & (means["metric"] == row.metric)].sort_values("scheduler")
        x, y = (this.loc[this["source"] == source, "mean"].to_numpy() for source in (row.source_x, row.source_y))
        assert row.tau_b == stats.kendalltau(x, y)[0]
        assert row.rho == stats.spearmanr(x, y)[0]


def test_values_keep_the_order_of_windows_or_take_the_order_given(load, tmp_path):
    table = long_table(windows=3)
    assert load(table).windows["a"] == ("a_w0", "a_w1", "a_w2")
    order = tmp_path / "order.txt"
    order.write_text("\n".join(f"{source}_w{n}" for source in "cba" for n in (2, 0, 1)))
    values = load(table, window_order=order)
    assert values.windows["a"] == ("a_w2", "a_w0", "a_w1")
    first = table.query("source == 'a' and window_id == 'a_w2' and region == 'LOW' and scheduler == 's1'")
    expected = first.set_index("metric").loc[PRIMARY_METRIC, "value"]
    assert values.of("a", "LOW", PRIMARY_METRIC)[0, 0] == expected


def test_csv_equals_parquet(load, tmp_path):
    table = long_table(windows=2)
    values = load(table)
    table.to_csv(tmp_path / "values.csv", index=False)
    from_csv = load_values([tmp_path / "values.csv"])
    assert all((from_csv.values[source] == values.values[source]).all() for source in values.sources)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="metric"), "no column metric"),
        (lambda t: t[:0], "no row"),
        (lambda t: t.replace({"metric": {PRIMARY_METRIC: "latency"}}), "metric 'latency' is unknown"),
        (lambda t: t.assign(value=np.where(t.index == 3, np.inf, t["value"])), "row 4: value is inf"),
        (lambda t: t.assign(region=t["region"].where(t.index != 2)), "row 3: region is empty"),
        (lambda t: pd.concat([t, t[1:2]]), "row [0-9]+: a / .* has a value in an earlier row too"),
    ],
)
def test_bad_tables_are_one_clear_line(load, change, message):
    with pytest.raises(UserError, match=message):
        load(change(long_table(windows=1)))


def test_missing_files_schedulers_and_windows_are_named(load, tmp_path):
    with pytest.raises(UserError, match="not found; give cells"):
        load_values([tmp_path / "none.csv"])
    with pytest.raises(UserError, match="no values of scheduler lifo"):
        load(long_table(windows=1), schedulers=["s1", "lifo"])
    order = tmp_path / "order.txt"
    order.write_text("a_w0\n")
    with pytest.raises(UserError, match="window b_w0 of b is not listed"):
        load(long_table(windows=1), window_order=order)


def slow_tau_b(x, y):
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in pairs]
    concordance = sum(a * b for a, b in signs)
    return concordance / math.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))


def test_tau_b_with_ties_equals_its_definition():
    rng = np.random.default_rng(1)
    names = [f"s{i:02d}" for i in range(11)]
    for _ in range(50):
        x, y = (pd.Series(rng.integers(0, 6, 11) / 6, names) for _ in range(2))
        assert compare(x, y, True)["tau_b"] == pytest.approx(slow_tau_b(x.to_numpy(), y.to_numpy()), abs=1e-14)


def test_constant_sides_and_single_schedulers_are_undefined():
    names = ["a", "b", "c"]
    result = compare(pd.Series([1.0, 1, 1], names), pd.Series([1.0, 2, 3], names), True)
    assert math.isnan(result["tau_b"])
    assert math.isnan(result["rho"])
    assert result["n_schedulers"] == 3
    lonely = compare(pd.Series([1.0], ["a"]), pd.Series([1.0, 2.0], ["a", "b"]), True)
    assert lonely["n_schedulers"] == 1
    assert math.isnan(lonely["tau_b"])
    assert math.isnan(lonely["top1_overlap"])
    nothing = compare(pd.Series([np.nan], ["a"]), pd.Series([1.0], ["a"]), True)
    assert nothing["n_schedulers"] == 0


def test_top_overlap_breaks_ties_by_name():
    x = pd.Series({"a": 1.0, "b": 1.0, "c": 0.5})
    y = pd.Series({"a": 0.9, "b": 1.0, "c": 0.5})
    assert top_overlap(x, y, 1) == 0.0  # a against b, though b is as good as a in x
    assert top_overlap(x, y, 3) == 1.0
    assert top_overlap(x, y, 2) == 1.0


def test_the_published_overlap_is_not_oriented_and_the_other_is():
    x = pd.Series({"fast": 1.0, "middle": 2.0, "slow_x": 9.0, "slow_y": 3.0})
    y = pd.Series({"fast": 1.0, "middle": 2.0, "slow_x": 3.0, "slow_y": 9.0})
    result = compare(x, y, higher_is_better=False)
    assert result["top1_overlap"] == 0.0
    assert result["top1_overlap_oriented"] == 1.0


def test_mean_of_nothing_is_undefined():
    assert math.isnan(mean_of_defined(np.array([np.nan])))
    assert math.isnan(mean_of_defined(np.array([])))


def test_anwg_rankings_of_published_windows(shared):
    """Six published windows: rankings of the means of two windows a source agree as SciPy says."""
    published = pd.read_csv(shared / "goldens/anwg.csv")
    published["source"] = published["window_id"].str.extract(r"^(.*?)_(?:stage0|pilot)")
    means = published.groupby(["source", "region", "policy"])["anwg"].mean()
    for region in ("KNEE", "HIGH_PRESSURE"):
        x, y = means["azure_llm_2024", region], means["bailian_qwen", region]
        assert compare(x, y, True)["tau_b"] == stats.kendalltau(x, y)[0]
        assert compare(x, y, True)["n_schedulers"] == 11

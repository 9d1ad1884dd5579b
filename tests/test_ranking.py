"""Rankings and their agreement, against hand-made and slow ones; ties, undefined values, constant sides."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.statistics.agreement import AGREEMENT_SCHEMA, compare, compare_sources, top_overlap
from servestudy.statistics.ranking import METRIC_NAMES, RANKING_SCHEMA, mean_of_defined, rank
from servestudy.workload import REGIONS


def cells(sources=("a", "b", "c"), schedulers=("s1", "s2", "s3", "s4"), windows=5, repetitions=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for source, region, scheduler, window in itertools.product(sources, REGIONS, schedulers, range(windows)):
        values = dict(zip(METRIC_NAMES, rng.integers(0, 200, len(METRIC_NAMES)) / 200, strict=True))
        rows += [
            {
                "source": source,
                "window_number": window,
                "region": region,
                "scheduler": scheduler,
                "repetition": repetition,
                **values,
            }
            for repetition in range(repetitions)
        ]
    return pd.DataFrame(rows).sample(frac=1, random_state=seed)  # in no particular order


def test_a_ranking_value_is_the_mean_over_windows_in_their_order():
    table = cells(windows=40)
    ranking = rank(table).set_index(["source", "region", "metric", "scheduler"])
    assert list(rank(table).columns) == RANKING_SCHEMA.names
    for key in (("a", "LOW", PRIMARY_METRIC, "s1"), ("c", "KNEE", "p95_ttft", "s4")):
        source, region, metric, scheduler = key
        rows = table[(table["source"] == source) & (table["region"] == region) & (table["repetition"] == 0)]
        rows = rows[rows["scheduler"] == scheduler]
        in_order = rows.sort_values("window_number")[metric].to_numpy()
        assert ranking.loc[key, "mean"] == np.mean(in_order)
        assert ranking.loc[key, "windows_defined"] == 40


def test_undefined_windows_are_left_out_and_counted():
    table = cells()
    gone = (table["source"] == "a") & (table["scheduler"] == "s1") & (table["window_number"] < 2)
    table.loc[gone, "mean_latency"] = np.nan
    never = (table["source"] == "a") & (table["scheduler"] == "s2")
    table.loc[never, "mean_latency"] = np.nan
    ranking = rank(table).set_index(["source", "region", "metric", "scheduler"])
    row = ranking.loc["a", "LOW", "mean_latency", "s1"]
    assert (row["windows_defined"], row["windows_undefined"]) == (3, 2)
    assert math.isnan(ranking.loc["a", "LOW", "mean_latency", "s2"]["mean"])
    agreement = compare_sources(rank(table), ["s1", "s2", "s3", "s4"]).set_index(
        ["metric", "region", "source_x", "source_y"]
    )
    row = agreement.loc["mean_latency", "LOW", "a", "b"]
    assert (row["n_schedulers"], row["n_excluded"]) == (3, 7)


def test_agreement_equals_scipy_on_sorted_names():
    ranking = rank(cells())
    agreement = compare_sources(ranking, ["s1", "s2", "s3", "s4"])
    assert list(agreement.columns) == AGREEMENT_SCHEMA.names
    assert len(agreement) == len(METRICS) * len(REGIONS) * 3
    for row in agreement.itertuples():
        this = ranking[(ranking["region"] == row.region) & (ranking["metric"] == row.metric)].sort_values("scheduler")
        x, y = (this.loc[this["source"] == source, "mean"].to_numpy() for source in (row.source_x, row.source_y))
        assert row.tau_b == stats.kendalltau(x, y)[0]
        assert row.rho == stats.spearmanr(x, y)[0]


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

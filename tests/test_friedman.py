"""Friedman's test on pooled windows against SciPy, and its undefined cases."""

import numpy as np
import pytest
from scipy import stats
from slow_study import example_values

from servestudy.statistics import friedman
from servestudy.tables import read_table, write_frame


def test_statistic_equals_scipy_on_the_pooled_windows(tmp_path):
    values = example_values(undefined=0)
    table = friedman.analyse(values)
    assert len(table) == 18
    for row in table.itertuples():
        blocks = [
            column
            for source in values.sources
            for column in values.of(source, row.region, row.metric).T
            if not np.isnan(column).any()
        ]
        if row.undefined_because:
            assert (row.metric, row.region) == ("arrival_normalized_weighted_goodput", "LOW")  # all tied
            continue
        expected = stats.friedmanchisquare(*np.array(blocks).T)
        assert (row.chi_square, row.p) == (expected.statistic, expected.pvalue)
        assert (row.n_windows, row.n_schedulers) == (len(blocks), 6)
    for _, family in table.groupby("metric"):
        defined = family.dropna(subset="p")
        assert (defined["p_adjusted"].to_numpy() == stats.false_discovery_control(defined["p"])).all()
        assert (family["rejected"] == (family["p_adjusted"] <= 0.05)).all()
    write_frame(table, friedman.SCHEMA, tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet", friedman.SCHEMA).num_rows == 18


def test_only_schedulers_defined_in_every_window_take_part():
    values = example_values(undefined=0)
    for source in values.sources[1:]:
        values.values[source][:, 2, 4, 1] = np.nan
    row = friedman.analyse(values).query("metric == 'mean_latency' and region == 'KNEE'").iloc[0]
    pooled = np.concatenate([values.of(source, "KNEE", "mean_latency") for source in values.sources], axis=1)
    assert row["chi_square"] == stats.friedmanchisquare(*np.delete(pooled, 4, axis=0)).statistic
    assert (row["n_schedulers"], row["n_schedulers_excluded"], row["n_undefined"]) == (5, 1, 2)


@pytest.mark.parametrize(
    ("change", "because", "n_schedulers"),
    [
        (lambda v: v.fill(0.5), "all schedulers tied in every window", 6),
        (lambda v: v.fill(np.nan), "fewer than 2 windows", 0),
        (lambda v: v[..., :4, 0].fill(np.nan), "fewer than 3 schedulers defined in every window", 2),
    ],
)
def test_undefined_tests_say_why(change, because, n_schedulers):
    values = example_values(undefined=0, windows=(3, 3, 3))
    for array in values.values.values():
        array[:] = np.random.default_rng(0).random(array.shape)
        change(array)
    table = friedman.analyse(values)
    assert (table["undefined_because"] == because).all()
    assert (table["n_schedulers"] == n_schedulers).all()
    assert (table["n_schedulers_excluded"] == 6 - n_schedulers).all()
    assert table[["chi_square", "p", "p_adjusted"]].isna().all(axis=None)
    assert not table["rejected"].any()


def test_two_schedulers_and_one_window_are_too_few():
    two = friedman.analyse(example_values(schedulers=("fifo", "edf")))
    assert (two["undefined_because"] == "fewer than 3 schedulers defined in every window").all()
    one = friedman.analyse(example_values(sources=("a",), windows=(1,), undefined=0))
    assert (one["undefined_because"] == "fewer than 2 windows").all()

"""Workload features against plain loops, and where they cannot be computed; strata; what is wrong with an index."""

import math
import statistics
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import freeze_source

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.statistics.workload_features import (
    CLASSIFIER_FEATURES,
    CLASSIFIER_GROUPS,
    FEATURES,
    SCHEMA,
    analyse,
    features,
    read_strata,
)
from servestudy.tables import read_table
from servestudy.traces.synthesize import synthesize
from servestudy.windows.frozen import FrozenWindow

COLUMNS = "window_id,source,start_row,skip_rows,valid_rows"


def percentile(values, percent):
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def correlation(x, y):
    return statistics.correlation(x, y)


def ranks(values):
    return [(sum(other < v for other in values) * 2 + sum(other == v for other in values) + 1) / 2 for v in values]


def slow_features(time_s, prompt, output):
    """The features by the study's definitions, without NumPy or SciPy."""
    n, times = len(time_s), sorted(time_s)
    duration, gaps = times[-1] - times[0], [b - a for a, b in pairwise(times)]
    slices = [0] * 20
    for time in times:
        slices[min(int((time - times[0]) / (duration / 20)), 19)] += 1
    gap_mean, gap_sd = statistics.fmean(gaps), statistics.pstdev(gaps)
    total = [p + o for p, o in zip(prompt, output, strict=True)]
    total_mean, total_sd = statistics.fmean(total), statistics.pstdev(total)
    g2 = sum((t - total_mean) ** 4 for t in total) / n / total_sd**4 - 3
    rate = n / duration
    return {
        "mean_arrival_rate_rps": rate,
        "interarrival_cv": gap_sd / gap_mean,
        **{f"interarrival_p{q}_s": percentile(gaps, q) for q in (50, 90, 99)},
        "burstiness_b": (gap_sd - gap_mean) / (gap_sd + gap_mean),
        "peak_short_window_arrival_rate_rps": max(slices) / (duration / 20),
        "idle_gap_fraction": sum(gap for gap in gaps if gap > 3 * gap_mean) / duration,
        "prompt_tokens_mean": statistics.fmean(prompt),
        "prompt_tokens_cv": statistics.pstdev(prompt) / statistics.fmean(prompt),
        **{f"prompt_tokens_p{q}": percentile(prompt, q) for q in (90, 99)},
        **{f"long_prompt_fraction_{k}": sum(p >= k for p in prompt) / n for k in (512, 2048, 8192)},
        "output_tokens_mean": statistics.fmean(output),
        "output_tokens_cv": statistics.pstdev(output) / statistics.fmean(output),
        **{f"output_tokens_p{q}": percentile(output, q) for q in (90, 99)},
        "prompt_output_pearson_r": correlation(prompt, output),
        "prompt_output_spearman_r": correlation(ranks(prompt), ranks(output)),
        "total_tokens_mean": total_mean,
        **{f"total_tokens_p{q}": percentile(total, q) for q in (90, 99)},
        "prompt_output_ratio_mean": sum((p + 1) / (o + 1) for p, o in zip(prompt, output, strict=True)) / n,
        "total_tokens_tail_ratio_p99_p50": percentile(total, 99) / percentile(total, 50),
        "total_tokens_excess_kurtosis": (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * g2 + 6),
        "total_tokens_gini": sum(abs(a - b) for a in total for b in total) / (2 * n * n * total_mean),
        "approx_token_arrival_rate_tps": rate * total_mean,
        "approx_concurrent_request_proxy": rate * statistics.fmean(output),
        "approx_kv_demand_proxy_tokens": rate * statistics.fmean(output) * statistics.fmean(prompt),
    }


def window(source="a", number=0, n=50, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.lognormal(6, 1.2, size=(2, n)).astype(np.int64) + 1
    return FrozenWindow(source, f"{source}_w{number}", number, np.cumsum(rng.exponential(0.7, n)), *tokens)


def undefined(found):
    return {name for name, value in found.items() if math.isnan(value)}


def test_there_are_31_features_of_which_28_are_classified_in_groups_of_8_7_4_9():
    assert (len(FEATURES), len(CLASSIFIER_FEATURES)) == (31, 28)
    assert [len(group) for group in CLASSIFIER_GROUPS.values()] == [8, 7, 4, 9]
    assert [name for name in FEATURES if name not in CLASSIFIER_FEATURES] == [
        "approx_token_arrival_rate_tps",
        "approx_concurrent_request_proxy",
        "approx_kv_demand_proxy_tokens",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_features_equal_plain_loops(seed):
    this = window(seed=seed)
    expected = slow_features(this.time_s.tolist(), this.prompt_tokens.tolist(), this.output_tokens.tolist())
    found = features(this.time_s, this.prompt_tokens, this.output_tokens)
    assert list(found) == list(expected) == list(FEATURES)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-11, abs=1e-13), name


def test_features_do_not_depend_on_the_order_of_requests():
    this = window()
    order = np.random.default_rng(1).permutation(len(this.time_s))
    once = features(this.time_s, this.prompt_tokens, this.output_tokens)
    again = features(this.time_s[order], this.prompt_tokens[order], this.output_tokens[order])
    assert again == pytest.approx(once, rel=1e-12)


def test_a_window_without_duration_has_no_rates():
    this = window()
    found = features(np.full(50, 3.0), this.prompt_tokens, this.output_tokens)
    assert undefined(found) == {
        "mean_arrival_rate_rps",
        "interarrival_cv",
        "burstiness_b",
        "peak_short_window_arrival_rate_rps",
        "idle_gap_fraction",
        "approx_token_arrival_rate_tps",
        "approx_concurrent_request_proxy",
        "approx_kv_demand_proxy_tokens",
    }
    assert found["interarrival_p99_s"] == 0


def test_equal_requests_have_no_correlation_and_no_kurtosis():
    found = features(np.arange(50.0), np.full(50, 100), np.full(50, 7))
    assert undefined(found) == {
        "prompt_output_pearson_r",
        "prompt_output_spearman_r",
        "total_tokens_excess_kurtosis",
    }
    assert (found["total_tokens_gini"], found["total_tokens_tail_ratio_p99_p50"], found["idle_gap_fraction"]) == (
        0,
        1,
        0,
    )


def test_one_request_or_three_and_no_tokens_at_all():
    one = undefined(features(np.array([1.0]), np.array([5]), np.array([6])))
    assert {"interarrival_p50_s", "mean_arrival_rate_rps", "total_tokens_excess_kurtosis"} <= one
    three = undefined(features(np.arange(3.0), np.array([5, 6, 9]), np.array([1, 3, 2])))
    assert three == {"total_tokens_excess_kurtosis"}
    none = features(np.arange(4.0), np.zeros(4, int), np.zeros(4, int))
    assert {"total_tokens_gini", "total_tokens_tail_ratio_p99_p50", "prompt_tokens_cv"} <= undefined(none)
    assert none["prompt_output_ratio_mean"] == 1


def test_rows_are_sorted_and_carry_the_stratum():
    windows = [window("b", 1), window("b", 0), window("a", 0)]
    strata = {("b", "b_w1"): "LATE", ("b", "b_w0"): "EARLY", ("a", "a_w0"): "MIDDLE"}
    table = analyse(windows, strata)
    assert list(table.columns) == SCHEMA.names
    assert list(zip(table["window_id"], table["stratum"], strict=True)) == [
        ("a_w0", "MIDDLE"),
        ("b_w0", "EARLY"),
        ("b_w1", "LATE"),
    ]
    with pytest.raises(UserError, match="window b_w0 of b is not in the window index"):
        analyse(windows, {key: "EARLY" for key in strata if key != ("b", "b_w0")})


def test_the_stratum_is_the_third_of_the_usable_rows_that_holds_the_first_row(tmp_path):
    path = tmp_path / "index.csv"
    starts = {500: "EARLY", 3499: "EARLY", 3500: "MIDDLE", 6499: "MIDDLE", 6500: "LATE", 9499: "LATE"}
    path.write_text("\n".join([COLUMNS, *(f"w{start},s,{start},500,9500" for start in starts)]))
    assert read_strata(path) == {("s", f"w{start}"): stratum for start, stratum in starts.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window_id,source,start_row\nw,s,1", "no column skip_rows, valid_rows"),
        (f"{COLUMNS}\nw,s,600,500,9500\nv,s,400,500,9500", "line 3: start_row is 400, must lie between"),
        (f"{COLUMNS}\nw,s,many,500,9500", "line 2: start_row is nan"),
        (f"{COLUMNS}\nw,s,9500,500,9500", "line 2: start_row is 9500"),
    ],
)
def test_what_is_wrong_with_an_index_is_named(tmp_path, text, message):
    path = tmp_path / "index.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"index\.csv: {message}"):
        read_strata(path)


def test_a_missing_index_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent\.csv: not found"):
        read_strata(tmp_path / "absent.csv")


def test_the_command_writes_the_table(tmp_path):
    synthesize("burstgpt_like", tmp_path / "raw")
    freeze_source("burstgpt_like", tmp_path / "raw", tmp_path)
    tables, index, out = (str(tmp_path / f"{name}") for name in ("burstgpt_like.parquet", "burstgpt_like.csv", "out"))
    assert main(["workload", "workload_features", "--windows", tables, "--window-index", index, "--out", out]) == 0
    table = read_table(out, SCHEMA).to_pandas()
    listed = pd.read_csv(index).set_index("window_id").loc[table["window_id"]]
    assert len(table) == len(listed) == 40
    for name, descriptor in (("burstiness_b", "burstiness_b"), ("mean_arrival_rate_rps", "arrival_rate_rps")):
        assert table[name].tolist() == listed[descriptor].tolist()
    assert table.groupby("stratum").size().to_dict() == {"EARLY": 13, "LATE": 14, "MIDDLE": 13}

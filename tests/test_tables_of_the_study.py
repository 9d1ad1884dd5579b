"""The tables: contents, trace set and model, undefined values, mistakes."""

import numpy as np
import pandas as pd
import pytest

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.statistics.reversal_rules import STABLE, SUPPORTED, UNDEFINED
from servestudy.tabulation.registry import TABLES, write_csv_table
from servestudy.workload import REGIONS

TITLE = "a trace set (synthetic)"


def write(folder, name: str, frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Write a table from these frames and read it back as text."""
    files = {}
    for read, frame in frames.items():
        files[read] = folder / (f"{read}.csv" if read in ("window_index", "claims") else f"{read}.parquet")
        frame.to_csv(files[read], index=False) if files[read].suffix == ".csv" else frame.to_parquet(files[read])
    write_csv_table(name, files, TITLE, "published", folder / "out.csv")
    table = pd.read_csv(folder / "out.csv", dtype=str, keep_default_na=False)
    assert list(table.columns[:2]) == ["trace_set", "model"]
    assert set(table["trace_set"]) == {TITLE}
    assert set(table["model"]) == {"published"}
    return table


def ranking(means: dict[str, float], region: str = "KNEE", metric: str = PRIMARY_METRIC) -> pd.DataFrame:
    rows = [
        {
            "source": "azure_like",
            "region": region,
            "metric": metric,
            "scheduler": name,
            "mean": mean,
            "windows_defined": 0 if np.isnan(mean) else 40,
            "windows_undefined": 40 if np.isnan(mean) else 0,
        }
        for name, mean in means.items()
    ]
    return pd.DataFrame(rows)


def test_tau_by_region(tmp_path):
    rows = [
        {
            "metric": metric,
            "region": region,
            "n_schedulers": 1 if (region, place) == ("LOW", 2) else 11,
            "tau_b": np.nan if (region, place) == ("LOW", 2) else 0.1 * number + 0.05 * place,
            "n_excluded": 1,
        }
        for metric in (PRIMARY_METRIC, "mean_ttft")
        for number, region in enumerate(REGIONS)
        for place in range(3)
    ]
    table = write(tmp_path, "tau_by_region", {"agreement": pd.DataFrame(rows)}).set_index("statistic")
    assert list(table.columns) == ["trace_set", "model", *REGIONS]
    assert float(table.loc["min_tau_b", "KNEE"]) == pytest.approx(0.2)
    assert float(table.loc["mean_tau_b", "KNEE"]) == pytest.approx(0.25)
    assert list(table.loc["pairs_undefined", ["LOW", "KNEE"]]) == ["1", "0"]
    assert list(table.loc["pairs_below_two_schedulers", ["LOW", "KNEE"]]) == ["1", "0"]
    assert float(table.loc["max_tau_b", "LOW"]) == pytest.approx(0.05)
    assert table.loc["values_excluded", "KNEE"] == "3"


def test_tau_by_region_without_any_tau(tmp_path):
    rows = [
        {"metric": PRIMARY_METRIC, "region": region, "n_schedulers": 11, "tau_b": np.nan, "n_excluded": 9}
        for region in ("LOW", "KNEE")
    ]
    table = write(tmp_path, "tau_by_region", {"agreement": pd.DataFrame(rows)}).set_index("statistic")
    assert list(table.columns) == ["trace_set", "model", "LOW", "KNEE"]
    assert table.loc["mean_tau_b", "LOW"] == "undefined"
    assert table.loc["pairs_defined", "LOW"] == "0"
    assert table.loc["pairs_below_two_schedulers", "LOW"] == "0"  # all tied


def test_rankings_give_equals_one_rank_and_undefined_ones_none(tmp_path):
    means = {"fifo": 0.5, "edf": 0.9, "slai_faithful": 0.9, "vllm_faithful": np.nan, "scorpio_style_slo_guard": 1.0}
    frame = pd.concat([ranking(means), ranking(means, metric="mean_ttft")])
    table = write(tmp_path, "rankings", {"ranking": frame})
    assert list(zip(table["scheduler"], table["rank"], table["equals"], strict=True)) == [
        ("edf", "1", "2"),
        ("slai_faithful", "1", "2"),
        ("fifo", "3", "1"),
        ("vllm_faithful", "undefined", "undefined"),
    ]
    assert list(table["windows_undefined"]) == ["0", "0", "0", "40"]
    assert table["mean_anwg"].iloc[-1] == "undefined"
    assert set(table["schedulers_defined"]) == {"3"}


def test_a_condition_with_one_defined_scheduler_ranks_none(tmp_path):
    frame = pd.concat([ranking({"fifo": 0.5, "edf": np.nan}), ranking({"fifo": 0.5, "edf": 0.4}, region="OVERLOAD")])
    table = write(tmp_path, "rankings", {"ranking": frame})
    assert list(table["region"]) == ["KNEE", "KNEE", "OVERLOAD", "OVERLOAD"]
    assert list(table["schedulers_defined"]) == ["1", "1", "2", "2"]
    assert list(table["rank"]) == ["undefined", "undefined", "1", "2"]
    assert "0.5" in set(table["mean_anwg"].iloc[:2])


def test_schedulers_say_what_they_stand_for(tmp_path):
    frame = ranking({"fifo": 1.0, "my_own": 1.0, "vllm_faithful": 0.5, "multi_level_feedback": 0.5})
    table = write(tmp_path, "schedulers", {"ranking": frame}).set_index("scheduler")
    assert list(table.index) == ["fifo", "vllm_faithful", "multi_level_feedback", "my_own"]
    assert table.loc["multi_level_feedback", "fidelity"] == "none: not of the study"
    assert table.loc["vllm_faithful", "family"] == "E_TOKEN_BUDGET_BATCHING"
    assert table.loc["vllm_faithful", "fidelity"] == "faithful reimplementation"
    assert "SOSP 2023" in table.loc["vllm_faithful", "paper"]
    assert table.loc["fifo", "paper"] == "none stated"
    assert table.loc["my_own", "family"] == "not registered"


def test_metrics_count_undefined_values(tmp_path):
    frame = pd.concat([ranking({"fifo": 1.0, "edf": np.nan}), ranking({"fifo": np.nan}, metric="mean_ttft")])
    table = write(tmp_path, "metrics", {"ranking": frame}).set_index("metric")
    assert list(table.index) == [metric.name for metric in METRICS]
    assert list(table.loc[PRIMARY_METRIC, ["primary", "values_defined", "values_undefined"]]) == ["yes", "40", "40"]
    assert list(table.loc["mean_ttft", ["better", "values_defined", "values_undefined"]]) == ["lower", "0", "40"]
    assert list(table.loc["mean_ttft", ["conditions", "conditions_below_two_schedulers"]]) == ["1", "1"]
    assert list(table.loc["p95_ttft", ["conditions", "conditions_below_two_schedulers"]]) == ["0", "0"]


def test_conditions_with_two_defined_schedulers_are_not_below_two(tmp_path):
    frame = pd.concat([ranking({"fifo": 1.0, "edf": 0.5}), ranking({"fifo": 1.0, "edf": np.nan}, region="OVERLOAD")])
    table = write(tmp_path, "metrics", {"ranking": frame}).set_index("metric")
    assert list(table.loc[PRIMARY_METRIC, ["conditions", "conditions_below_two_schedulers"]]) == ["2", "1"]


def test_sources_are_named_as_what_they_are(tmp_path):
    facts = {name: 1.0 for name in TABLES["sources"].reads["window_index"]}
    sources = ["azure_llm_2024", "azure_2023_conv", "burstgpt_like", "mooncake_conversation"]
    rows = [facts | {"source": source, "request_count": 200, "valid_rows": 1000} for source in sources * 2]
    table = write(tmp_path, "sources", {"window_index": pd.DataFrame(rows)}).set_index("source")
    assert list(table.index) == sources
    assert list(table["published_counterpart"]) == ["itself", "none", "burstgpt (made to resemble it)", "none"]
    assert list(table["synthetic"]) == ["no", "no", "yes", "no"]
    assert set(table["windows"]) == {"2"}
    assert set(table["requests"]) == {"400"}


def reversals(labels: list[tuple[str, str, float]]) -> pd.DataFrame:
    columns = TABLES["supported_reversals"].reads["reversals"]
    rows = [
        {"rule": rule, "metric": PRIMARY_METRIC, "reversal_class": label, "effect": effect}
        for rule, label, effect in labels
    ]
    return pd.DataFrame(rows, columns=columns).fillna({name: 0.25 for name in columns})


def test_supported_reversals_largest_first_by_rule(tmp_path):
    labels = [("oriented", SUPPORTED, 0.3), ("published", SUPPORTED, 0.2), ("published", SUPPORTED, 0.4)]
    table = write(tmp_path, "supported_reversals", {"reversals": reversals([*labels, ("published", STABLE, 0.9)])})
    assert list(zip(table["rule"], table["effect"], strict=True)) == [
        ("published", "0.4"),
        ("published", "0.2"),
        ("oriented", "0.3"),
    ]
    assert {"difference_x", "low_x", "high_x", "smaller_difference", "n_excluded"} <= set(table.columns)


def test_supported_reversals_stand_beside_the_count_of_undefined_comparisons(tmp_path):
    labels = [("published", label, 0.2) for label in (SUPPORTED, UNDEFINED, UNDEFINED, STABLE)]
    table = write(tmp_path, "supported_reversals", {"reversals": reversals([*labels, ("oriented", UNDEFINED, 0.1)])})
    assert list(table[["comparisons_in_region", "undefined_in_region"]].iloc[0]) == ["4", "2"]


def test_a_table_without_rows_says_so(tmp_path):
    table = write(tmp_path, "supported_reversals", {"reversals": reversals([("published", STABLE, 0.2)])})
    assert len(table) == 1
    assert set(table.iloc[0, 2:]) == {"none"}


def test_first_n_reached_never_and_undefined(tmp_path):
    rows = [
        {
            "source": "azure_like",
            "metric": PRIMARY_METRIC,
            "rule": "published",
            "criterion": criterion,
            "n_windows": n,
            "n_windows_available": 40,
            "n_schedulers": 11,
            "n_excluded": 0,
            "probability": probability,
            "is_first_n": n == first,
        }
        for criterion, first, probability in (("exact", 10, 0.9), ("top1", 0, 0.1), ("top3", 0, np.nan))
        for n in (5, 10)
    ]
    table = write(tmp_path, "first_n", {"sample_complexity": pd.DataFrame(rows)})
    assert list(table[["exact", "top1", "top3"]].iloc[0]) == ["10", "never", "undefined"]


def test_robustness_and_claims_keep_their_rows(tmp_path):
    for name in ("robustness", "claims"):
        ((read, columns),) = TABLES[name].reads.items()
        frame = pd.DataFrame([dict.fromkeys(columns, "x"), dict.fromkeys(columns, "y")])
        table = write(tmp_path, name, {read: frame})
        assert list(table.columns[2:]) == list(columns)
        assert list(table.iloc[:, 2]) == ["x", "y"]


def test_what_each_table_reads_is_in_the_analyses():
    from importlib import import_module

    from servestudy.claims import COLUMNS
    from servestudy.statistics.registry import ANALYSES

    for name, table in TABLES.items():
        for read, columns in table.reads.items():
            if read in ANALYSES:
                assert set(columns) <= set(import_module(ANALYSES[read].module).SCHEMA.names), name
            elif read == "claims":
                assert set(columns) <= set(COLUMNS)


def test_mistakes_are_said_in_plain_words(tmp_path, capsys):
    frame = ranking({"fifo": 1.0})
    frame.to_parquet(tmp_path / "ranking.parquet")
    frame.drop(columns="mean").to_parquet(tmp_path / "short.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"nothing")
    out = tmp_path / "t.csv"

    def told(*tables: str) -> str:
        assert main(["table", "rankings", "--tables", *tables, "--title", "t", "--model", "m", "--out", str(out)]) == 1
        assert not out.exists()
        return capsys.readouterr().err

    assert "it needs --tables ranking=FILE" in told(f"agreement={tmp_path}/ranking.parquet")
    assert "no column mean" in told(f"ranking={tmp_path}/short.parquet")
    assert "not found" in told(f"ranking={tmp_path}/absent.parquet")
    assert "not a readable table" in told(f"ranking={tmp_path}/broken.parquet")
    with pytest.raises(UserError, match="it needs"):
        write_csv_table("rankings", {}, "t", "m", out)


def test_same_bytes_twice(tmp_path):
    frame = ranking({"fifo": 0.1 + 0.2, "edf": 1 / 3})
    outputs = []
    for _ in range(2):
        write(tmp_path, "rankings", {"ranking": frame})
        outputs.append((tmp_path / "out.csv").read_bytes())
    assert outputs[0] == outputs[1]

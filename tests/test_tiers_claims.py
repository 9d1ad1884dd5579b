"""Tests of the claims of the tiers study, on tables made for it."""

import pandas as pd
import pytest
import yaml

from servestudy.claim_tests import tiers
from servestudy.claim_tests.evidence import NotEvaluatedError, UndefinedError
from servestudy.claims import NOT_EVALUATED, load_claims, tables_of_run, write_claims
from servestudy.cli import main

MIXES = ["uniform", "gaussian_v2"]


class Tables:
    """Evidence that is held in memory."""

    def __init__(self, model: str = "published", **tables: pd.DataFrame) -> None:
        self.model = model
        self.tables = tables

    def table(self, name: str) -> pd.DataFrame:
        return self.tables[name]


def gains(by_k: dict[int, tuple[float, float, float]], **other) -> pd.DataFrame:
    """E2E P99 of ours over one tier on paired seeds: gain and ends of the interval by K."""
    rows = [
        {
            "preset": "burst",
            "system": "ours",
            "variant": "streams=separate",
            "tiers": k,
            "mix": "uniform",
            "requests": 10_000,
            "load": "burst",
            "kv_blocks": 128,
            "reference": "one_tier",
            "metric": "e2e_p99",
            "gain": gain,
            "low": low,
            "high": high,
        }
        | other
        for k, (gain, low, high) in by_k.items()
    ]
    return pd.DataFrame(rows)


def speedups(by_k: dict[int, float], against_one: tuple[float, float, float] = (1.1, 1.05, 1.15), **other) -> Tables:
    """The same P99 speed-ups for two mixes and two volumes."""
    rows = [
        {
            "preset": "burst",
            "system": "ours",
            "variant": "published",
            "tiers": k,
            "mix": mix,
            "requests": requests,
            "seed": 42,
            "load": "burst",
            "kv_blocks": 128,
            "reference": "baseline",
            "e2e_p99_speedup": speedup,
            "ttft_mean_speedup": 2 * speedup,
            "cost_per_latency_gain": 1 - 1 / speedup,
        }
        | other
        for k, speedup in by_k.items()
        for mix in MIXES
        for requests in (10_000, 15_000)
    ]
    return Tables(tier_speedups=pd.DataFrame(rows), tier_gains=gains(dict.fromkeys(by_k, against_one)))


def test_best_k_needs_the_peak_and_an_interval_above_one_tier():
    peak = {1: 3.0, 2: 2.5, 4: 3.1, 5: 2.9}
    found = tiers.tier_best_k(speedups(peak), mixes=MIXES, best=4)
    assert (found.values, found.holds) == ({"uniform": 4, "gaussian_v2": 4}, True)
    assert found.note.startswith("over one tier on the same requests: K = 4 uniform 1.100 [1.050, 1.150]")
    assert found.note.endswith("best of 1 to 5: uniform 4, gaussian_v2 4; best of 2 to 5: uniform 4, gaussian_v2 4")
    assert tiers.tier_best_k(speedups(peak, against_one=(1.04, 0.99, 1.09)), mixes=MIXES, best=4).holds is False
    assert tiers.tier_best_k(speedups(peak), mixes=MIXES, best=5).holds is False
    single = speedups(peak, against_one=(1.1, float("nan"), float("nan")))
    assert tiers.tier_best_k(single, mixes=MIXES, best=4).holds is None


def test_plateau_is_the_best_k_of_the_mean():
    assert tiers.tier_plateau(speedups({1: 2.0, 2: 2.5, 4: 3.1, 5: 3.0}), mixes=MIXES).values == {"plateau_k": 4}
    flat = tiers.tier_plateau(speedups({1: 3.0, 2: 2.5, 4: 2.9}), mixes=MIXES)
    assert (flat.values, flat.holds) == ({"plateau_k": 1}, False)


def test_ranges_are_of_the_cells_asked_for():
    table = speedups({1: 2.0, 4: 2.5})
    speedup = tiers.tier_speedup_range(table, metric="e2e_p99", mixes=MIXES)
    assert (speedup.values, speedup.holds) == ({"min": 2.0, "max": 2.5}, True)
    assert "K = 4 uniform 1.100 [1.050, 1.150]" in speedup.note
    cost = tiers.tier_speedup_range(table, metric="cost_per_latency_gain", mixes=MIXES, requests=10_000)
    assert cost.values == pytest.approx({"min": 50.0, "max": 60.0})
    assert tiers.tier_speedup_range(speedups({1: 0.9, 4: 2.0}), metric="e2e_p99", mixes=MIXES).holds is False


@pytest.mark.parametrize("other", [{"variant": "migration=off"}, {"system": "ours_one_tier"}, {"preset": "fixed"}])
def test_other_variants_systems_and_workloads_do_not_count(other):
    with pytest.raises(UndefinedError, match="no speed-up of ours over baseline"):
        tiers.tier_speedup_range(speedups({1: 2.0, 4: 2.5}, **other), metric="e2e_p99", mixes=MIXES)


def metrics(system: str, by_k: dict[int, float], preset: str, tier: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "preset": preset,
            "system": system,
            "variant": "published",
            "tiers": list(by_k),
            "mix": "uniform",
            "requests": 800,
            "seed": 42,
            "tier": tier,
            "load": "burst",
            "kv_blocks": 128,
            "e2e_p99_s": list(by_k.values()),
        }
    )


def test_stability_over_k():
    table = Tables(tier_metrics=metrics("ours", {1: 1.0, 4: 1.04, 10: 1.02}, "fixed", -1))
    found = tiers.tier_stable_over_k(table, metric="e2e_p99", most=1.04)
    assert (found.values, found.holds) == ({"largest_over_smallest": 1.04}, True)
    assert tiers.tier_stable_over_k(table, metric="e2e_p99", most=1.03).holds is False
    one = Tables(tier_metrics=metrics("ours", {4: 1.0}, "fixed", -1))
    with pytest.raises(UndefinedError, match="fewer than two K"):
        tiers.tier_stable_over_k(one, metric="e2e_p99", most=1.04)


def test_high_priority_compares_tier_zero_of_the_same_cells():
    theirs = metrics("infaas_vllm", {1: 9.0, 2: 6.0, 4: 6.0, 5: 6.0}, "burst", 0)
    ours = metrics("ours", {1: 1.0, 2: 4.0, 4: 3.0, 5: 2.9}, "burst", 0)
    found = tiers.tier_high_priority(Tables(tier_metrics=pd.concat([theirs, ours])), mixes=MIXES)
    assert found.values == {"max": pytest.approx(6 / 2.9)}
    assert found.holds is False  # K = 5 is better than K = 4
    with pytest.raises(UndefinedError, match="tier 0 under both systems"):
        tiers.tier_high_priority(Tables(tier_metrics=ours), mixes=MIXES)


def test_load_dependence_is_evaluated_on_the_serving_engine_only():
    with pytest.raises(NotEvaluatedError, match="states no pair of request rates"):
        tiers.tier_load_dependence(Tables(), mixes=MIXES)
    made = [
        gains({4: (gain, gain, gain)}, preset="serving", variant="published", load=load, kv_blocks=7424)
        for load, gain in (("0.7", 1.1), ("1.1", 1.6))
    ]
    table = pd.concat(made).assign(reference="baseline")
    found = tiers.tier_load_dependence(Tables("serving", tier_gains=table), mixes=MIXES)
    assert (found.values, found.holds) == ({"gain": "grows towards saturation"}, False)
    with pytest.raises(UndefinedError, match="not both run"):
        tiers.tier_load_dependence(Tables("serving", tier_gains=table[:1]), mixes=MIXES)


def test_reported_values_are_those_of_the_study(project, shared):
    claims = load_claims(project / "claims/tiers.yaml")["claims"]
    reported = yaml.safe_load((shared / "reported/tiers.yaml").read_text(encoding="utf-8"))
    known = {name: claim["value"] for name, claim in reported["claims"].items()}
    for name in ("prefill_mean_speedup_range", "cost_per_latency_10k", "cost_per_latency_15k"):
        found = claims[f"tiers.{name}"]["reported"]
        assert [found["min"], found["max"]] == known[f"tiers.{name}"]
    assert claims["tiers.e2e_p99_speedup"]["reported"]["max"] == known["tiers.e2e_p99_speedup_max"]
    assert set(claims["tiers.best_k"]["reported"].values()) == {known["tiers.best_k"]}
    assert claims["tiers.plateau_k"]["reported"]["plateau_k"] == known["tiers.plateau_k"]


def test_claims_of_a_small_run_are_evaluated_from_its_tables(project, tmp_path):
    folder = tmp_path / "published"
    small = ["--tiers", "1", "2", "--mixes", "uniform", "--requests", "150", "--out", str(folder / "cells.parquet")]
    assert main(["tiers", "--systems", "infaas_vllm", "ours", "ours_one_tier", *small]) == 0
    out = [f"--{name}={folder / name}.parquet" for name in ("metrics", "speedups", "gains")]
    assert main(["tiers-analyse", "--cells", str(folder / "cells.parquet"), *out]) == 0
    models = {"published": tables_of_run(tmp_path, "published")}
    table = write_claims(project / "claims/tiers.yaml", models, "none", tmp_path / "claims.csv").set_index("claim")
    assert table.loc["tiers.e2e_p99_speedup", "reproduced"].startswith("min = ")
    assert table.loc["tiers.load_dependence", "verdict"] == NOT_EVALUATED
    assert table.loc["tiers.decode_stable", "reproduced"] == "undefined"  # the other workload was not run
    assert "K = 4 was not run with several seeds" in table.loc["tiers.best_k", "note"]

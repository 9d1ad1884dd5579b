"""The published variant against the study's own result files: 512 prompt and 128 output tokens for every request.

Rows are p50, p90, p99, mean of end-to-end seconds. The files record no parameters; 50 requests at 1/s on one to four
replicas and 800 at 10/s on four reproduce them.
"""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from servestudy.engine.time_model import time_model
from servestudy.tabulation.tiers_reported import RULES
from servestudy.tiers.lengths import FixedLengths
from servestudy.tiers.metrics import ALL_TIERS, metric_rows
from servestudy.tiers.outcome import Outcome, simulate
from servestudy.tiers.reported import repeated_values, reported_values
from servestudy.tiers.settings import PRESETS, with_settings
from servestudy.tiers.workload import Workload, draw

FIXED = PRESETS["fixed"]
FIT_A = replace(time_model("llama_2_7b_a100"), prefill_512_s=5.0e-3)
"""The fit to end-to-end times alone; the default weighs the time to first token as well."""

VLLM_AT_1_PER_S = {
    1: (1.343548, 1.532477, 1.605048, 1.375046),
    2: (1.268113, 1.340699, 1.384978, 1.283031),
    3: (1.249130, 1.296368, 1.326138, 1.264336),
    4: (1.249130, 1.289555, 1.293216, 1.256523),
}
VLLM_AT_10_PER_S = {
    "e2e_mean_s": 1.456367,
    "e2e_p99_s": 1.6280306,
    "ttft_mean_s": 0.0416907,
    "ttft_p99_s": 0.0470394,
    "tbt_mean_s": 0.0110522,
    "tbt_p99_s": 0.0123758,
}


def run_fixed(system: str, tiers: int, *settings: str) -> Outcome:
    requests = draw(FIXED.workload, "round_robin", tiers, seed=42)
    return simulate(system, requests, tiers, with_settings(FIXED.rules, settings))[0]


def e2e_row(outcome: Outcome) -> list[float]:
    row = next(metric_rows(outcome, tiers=int(outcome.tier.max()) + 1))
    return [row[f"e2e_{name}_s"] for name in ("p50", "p90", "p99", "mean")]


@pytest.fixture(scope="module")
def reported(shared) -> dict[str, list[float]]:
    file = yaml.safe_load((shared / "reported/tiers.yaml").read_text(encoding="utf-8"))
    rows = file["csv_k_sweep_e2e_seconds"] + file["csv_k_sweep_latency"]
    return {row["key"]: row["value"] for row in rows}


@pytest.fixture(scope="module")
def ours_by_tiers() -> dict[int, Outcome]:
    return {tiers: run_fixed("ours", tiers) for tiers in range(1, 11)}


@pytest.mark.parametrize("replicas", VLLM_AT_1_PER_S)
def test_vllm_rows_of_an_idle_cluster_are_within_one_percent(replicas):
    requests = draw(Workload(FixedLengths(), 1.0, 50), "round_robin", 1, seed=42)
    rules = replace(FIXED.rules, replicas=replicas)
    outcome, _ = simulate("round_robin_vllm", requests, 1, rules, FIT_A)
    assert e2e_row(outcome) == pytest.approx(VLLM_AT_1_PER_S[replicas], rel=0.01)


OTHERS_AT_1_PER_S = {
    ("round_robin_orca", 1): (1.330747, 1.502116, 1.559629, 1.361776),
    ("round_robin_orca", 2): (1.269541, 1.329962, 1.366405, 1.278164),
    ("round_robin_orca", 3): (1.247334, 1.287907, 1.31502, 1.26134),
    ("round_robin_sarathi", 1): (1.338455, 1.51018, 1.557262, 1.366642),
    ("round_robin_sarathi", 2): (1.278983, 1.336897, 1.36712, 1.282346),
    ("round_robin_sarathi", 3): (1.24913, 1.288806, 1.318505, 1.264552),
    ("ours", 1): (1.335182, 1.507385, 1.559672, 1.364554),
    ("ours", 2): (1.272613, 1.329558, 1.368793, 1.28083),
    ("ours", 3): (1.24913, 1.290217, 1.317486, 1.26313),
}


@pytest.mark.parametrize(("system", "replicas"), OTHERS_AT_1_PER_S)
def test_other_rows_of_an_idle_cluster_are_within_three_percent(system, replicas):
    requests = draw(Workload(FixedLengths(), 1.0, 50), "round_robin", 1, seed=42)
    outcome, _ = simulate(system, requests, 1, replace(FIXED.rules, replicas=replicas))
    assert e2e_row(outcome) == pytest.approx(OTHERS_AT_1_PER_S[system, replicas], rel=0.03)


def test_vllm_row_of_the_k_files_is_within_two_percent(state_fact):
    row = next(metric_rows(run_fixed("round_robin_vllm", 4), tiers=4))
    worst = max(abs(row[name] / expected - 1) for name, expected in VLLM_AT_10_PER_S.items())
    state_fact(f"tiers: vLLM row of the K files, largest error {worst:.2%}")
    assert worst < 0.02
    assert row["tbt_published_mean_s"] == row["tbt_mean_s"]  # nothing is restarted


@pytest.mark.parametrize("system", ["round_robin_vllm", "round_robin_orca", "round_robin_sarathi"])
def test_rows_of_the_other_schedulers_are_within_three_percent_and_the_same_for_every_k(system, reported):
    outcomes = [run_fixed(system, tiers) for tiers in (1, 4, 10)]
    for outcome in outcomes[1:]:
        assert (outcome.completion_s == outcomes[0].completion_s).all()
    name = system.removeprefix("round_robin_")
    assert e2e_row(outcomes[0]) == pytest.approx(reported[f"2025-12-01/{name}@K1..10"], rel=0.03)


def test_end_to_end_rows_of_ours_are_within_three_percent_for_every_k(ours_by_tiers, reported, state_fact):
    errors = []
    for tiers, outcome in ours_by_tiers.items():
        expected = reported[f"2025-12-01/llumlet@K{tiers}"]
        assert e2e_row(outcome) == pytest.approx(expected, rel=0.03)
        errors.append(np.abs(np.array(e2e_row(outcome)) / expected - 1))
    state_fact(f"tiers: E2E of ours against the study's files, K = 1..10: largest error {np.max(errors):.1%}")


def test_first_token_times_of_ours_but_for_eight_rows(ours_by_tiers, reported, state_fact):
    """Two means and six P99, which rest on eight of 800 values, are more than 3 % off. All lie above vLLM's."""
    errors = {"mean": {}, "p99": {}}
    for tiers, outcome in ours_by_tiers.items():
        row = next(metric_rows(outcome, tiers))
        _, _, p99, mean, _, _ = reported[f"2025-11-28_16-06-49/llumlet@K{tiers}"]
        errors["mean"][tiers] = row["ttft_mean_s"] / mean - 1
        errors["p99"][tiers] = row["ttft_p99_s"] / p99 - 1
        assert row["ttft_mean_s"] > 1.05 * VLLM_AT_10_PER_S["ttft_mean_s"]
        assert row["ttft_p99_s"] > 1.6 * VLLM_AT_10_PER_S["ttft_p99_s"]
    for name, of_tiers in errors.items():
        low, high = min(of_tiers.values()), max(of_tiers.values())
        state_fact(f"tiers: TTFT {name} of ours, K = 1..10: {low:+.1%} to {high:+.1%}")
    off = {name: {k: e for k, e in of_tiers.items() if abs(e) > 0.03} for name, of_tiers in errors.items()}
    assert off["mean"] == pytest.approx({6: -0.0301, 8: -0.0429}, abs=0.0005)
    assert off["p99"] == pytest.approx({1: 0.061, 4: -0.102, 5: 0.186, 8: -0.046, 9: -0.040, 10: 0.059}, abs=0.001)


def test_a_p99_that_is_off_lies_within_what_an_open_rule_makes_of_it_but_the_means_do_not():
    explained = {}
    for tiers in (1, 4, 5, 6, 8, 9, 10):
        for rule, variants in RULES.items():
            rows = [run_fixed("ours", tiers, *(v.split(",") if v != "published" else ())) for v in variants]
            ttft_s = [row.first_token_s - row.arrival_s for row in rows]
            for name, values in (("p99", np.percentile(ttft_s, 99, axis=1)), ("mean", np.mean(ttft_s, axis=1))):
                if min(values) <= reported_values()["ours", tiers, f"ttft_{name}_s"] <= max(values):
                    explained.setdefault((name, tiers), []).append(rule)
    assert explained["p99", 1] == explained["p99", 5] == explained["p99", 9] == ["prefill_attention"]
    assert explained["p99", 10] == ["decode_attention"]
    assert explained["p99", 4] == explained["p99", 8] == ["decode_attention", "prefill_attention"]
    assert ("mean", 6) not in explained
    assert ("mean", 8) not in explained


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_the_spread_in_decode_attention_moves_vllm_rows_by_less_than_two_percent(factor):
    row, plain = (
        next(metric_rows(run_fixed("round_robin_vllm", 1, f"decode_attention={by}"), 1)) for by in (factor, 1)
    )
    study = repeated_values()["round_robin_vllm", 1, "e2e_mean_s"] / VLLM_AT_10_PER_S["e2e_mean_s"] - 1
    assert abs(row["e2e_mean_s"] / plain["e2e_mean_s"] - 1) == pytest.approx(study, abs=0.002)
    assert {name: row[name] for name in VLLM_AT_10_PER_S} == pytest.approx(VLLM_AT_10_PER_S, rel=0.02)


def test_the_study_does_not_repeat_its_own_p99(state_fact):
    """Two of its files of one day, same workload; 13.5 % apart at K = 8, where the means differ by 1.1 %."""
    again, first = repeated_values(), reported_values()
    apart = {
        tiers: again["ours", tiers, "ttft_p99_s"] / first["ours", tiers, "ttft_p99_s"] - 1 for tiers in range(1, 11)
    }
    state_fact(
        f"tiers: the study's own two files, TTFT P99 of ours, {min(apart.values()):+.1%} to {max(apart.values()):+.1%}"
    )
    assert max(apart, key=lambda tiers: abs(apart[tiers])) == 8
    assert apart[8] == pytest.approx(0.135, abs=0.001)
    assert abs(again["ours", 8, "ttft_mean_s"] / first["ours", 8, "ttft_mean_s"] - 1) < 0.012


def test_migration_is_off_and_nothing_restarts_in_the_comparison_scripts(ours_by_tiers):
    for outcome in ours_by_tiers.values():
        assert outcome.completed.all()
        assert not outcome.migrations.any()
        assert not outcome.restarts.any()


def test_capacity_of_the_real_gpu_is_7424_blocks():
    """72 GiB less the weights of the layers, in whole sequences of 4,096 tokens."""
    model = time_model("llama_2_7b_a100")
    slots = int((72 * 2**30 - 6_476_000_000 * 2) // (model.kv_token_bytes * 4096))
    assert (slots, slots * 4096 // 16) == (29, 7424)
    assert model.kv_blocks == FIXED.rules.total_blocks == 7424


def test_rows_by_tier_add_up(ours_by_tiers):
    rows = list(metric_rows(ours_by_tiers[4], tiers=4))
    assert [row["tier"] for row in rows] == [ALL_TIERS, 0, 1, 2, 3]
    for name in ("of_tier", "completed", "restarts", "migrations"):
        assert rows[0][name] == sum(row[name] for row in rows[1:])
    assert rows[0]["ttft_mean_s"] == pytest.approx(np.mean([row["ttft_mean_s"] for row in rows[1:]]))

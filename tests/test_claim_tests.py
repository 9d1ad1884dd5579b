# ruff: noqa: F811 (fixtures are imported)
"""What computes the claims' values, on made tables and made requests."""

from dataclasses import replace

import numpy as np
import pytest
from made_claims import (
    PAIRS,
    agreement_rows,
    make,
    reversal_rows,
    run_test,
    study,  # noqa: F401
)

from servestudy.claim_tests.evidence import FIFO_CELLS, Finding, UndefinedError, stand_in
from servestudy.claims import (
    evaluate,
)
from servestudy.engine import fixed_step
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.reversal_rules import STABLE, SUPPORTED
from servestudy.windows import sampling


def test_taus_that_hold_and_do_not(tmp_path):
    files = {"agreement": make(tmp_path, "agreement", agreement_rows(dict(zip(PAIRS, (0.9, 0.6, 0.5), strict=True))))}
    found = run_test("tau_range", files)
    assert found == Finding({"min": 0.5, "max": 0.9, "n_conditions": 18, "n_positive": 18}, True)
    assert run_test("tau_of_pair", files, roles=["azure", "bailian"], at_least=0.8).holds
    assert run_test("tau_with_source", files, role="burstgpt").values == {"min": 0.5, "max": 0.6}
    gap = run_test("tau_gap", files, role="burstgpt")
    assert gap.holds
    assert gap.values == pytest.approx({"min": 0.3, "max": 0.4})
    assert not run_test("tau_with_source", files, role="azure").holds
    assert run_test("tau_by_region", files, spread_below=0.1).holds, "constant means have no trend"

    files = {"agreement": make(tmp_path, "agreement", agreement_rows(dict(zip(PAIRS, (0.9, -0.1, 0.5), strict=True))))}
    assert run_test("tau_range", files).holds is False
    assert run_test("tau_range", files).values["n_positive"] == 12


def test_a_trend_over_the_regions_is_seen(tmp_path):
    rows = agreement_rows({PAIRS[0]: 0.5})
    for number, row in enumerate(rows):
        row["tau_b"] += 0.01 * number
    files = {"agreement": make(tmp_path, "agreement", rows)}
    assert run_test("tau_by_region", files, spread_below=0.1).holds is False
    rows[0]["tau_b"] = 0.53
    files = {"agreement": make(tmp_path, "agreement", rows)}
    assert run_test("tau_by_region", files, spread_below=0.1).holds is True
    assert run_test("tau_by_region", files, spread_below=0.01).holds is False


def test_undefined_taus_are_left_out_and_counted(tmp_path):
    rows = agreement_rows(dict(zip(PAIRS, (0.9, np.nan, 0.5), strict=True)))
    files = {"agreement": make(tmp_path, "agreement", rows)}
    found = run_test("tau_range", files)
    assert found.holds
    assert found.note == "6 of 18 taus undefined"
    files = {"agreement": make(tmp_path, "agreement", agreement_rows(dict.fromkeys(PAIRS, np.nan)))}
    with pytest.raises(UndefinedError, match="no value is defined"):
        run_test("mean_tau", files, at_least=0.5)


def test_a_source_that_nothing_stands_for_is_undefined():
    assert stand_in("azure", ["azure_like", "burstgpt"]) == "azure_like"
    with pytest.raises(UndefinedError, match="no source stands for burstgpt"):
        stand_in("burstgpt", ["azure_2023_conv", "mooncake_conversation"])
    with pytest.raises(UndefinedError, match="2 sources stand for azure"):
        stand_in("azure", ["azure_2023_conv", "azure_2023_code"])


def test_reversals_of_one_pair_and_of_several(tmp_path):
    one = [(SUPPORTED, "KNEE", "a", "b"), (SUPPORTED, "OVERLOAD", "a", "b"), (STABLE, "LOW", "a", "c")]
    files = {"reversals": make(tmp_path, "reversals", reversal_rows(one))}
    assert run_test("reversals_of_one_pair", files, pair="a|b").values == {"of_the_pair": 2, "of_other_pairs": 0}
    assert run_test("reversals_of_one_pair", files, pair="a|b").holds
    assert run_test("reversals_with_source", files, role="burstgpt").holds
    assert run_test("reversals_survive_fdr", files).values == {"survive": 2, "of": 2}
    by_region = run_test("reversals_by_region", files, without="LOW", high=["OVERLOAD"])
    assert by_region.values == {"KNEE": 1, "OVERLOAD": 1, "LOW": 0}
    assert by_region.holds

    several = [*one, (SUPPORTED, "LOW", "b", "c")]
    files = {"reversals": make(tmp_path, "reversals", reversal_rows(several))}
    found = run_test("reversals_of_one_pair", files, pair="a|b")
    assert found.values == {"of_the_pair": 2, "of_other_pairs": 1}
    assert found.holds is False
    assert found.note == "2 pairs: a|b 2, b|c 1"
    assert run_test("reversals_by_region", files, without="LOW", high=["OVERLOAD"]).holds is False


def test_without_a_supported_reversal_claims_about_them_are_undefined(tmp_path):
    files = {"reversals": make(tmp_path, "reversals", reversal_rows([(STABLE, "KNEE", "a", "b")]))}
    for name, parameters in (
        ("reversals_of_one_pair", {"pair": "a|b"}),
        ("reversals_with_source", {"role": "burstgpt"}),
        ("reversals_survive_fdr", {}),
    ):
        with pytest.raises(UndefinedError, match="no supported reversal"):
            run_test(name, files, **parameters)
    counts = run_test("reversal_class_counts", files, supported_below=0.1)
    assert counts.holds is False
    assert counts.values["supported"] == 0


def test_first_n_that_is_never_reached(tmp_path):
    rows = [
        {
            "source": source,
            "metric": PRIMARY_METRIC,
            "rule": "published",
            "criterion": "top1",
            "n_windows": n,
            "is_first_n": n == first,
        }
        for source, first in (("azure_like", 5), ("bailian_like", 10), ("burstgpt_like", None))
        for n in (5, 10)
    ]
    files = {"sample_complexity": make(tmp_path, "sample_complexity", rows)}
    found = run_test("first_n", files, criterion="top1", largest="burstgpt")
    assert found == Finding({"azure": 5, "bailian": 10, "burstgpt": "never"}, True)
    assert run_test("first_n", files, criterion="top1", above=5).holds is False


def test_best_everywhere_counts_equals_and_no_style_approximation(tmp_path):
    def rows(means):
        return [
            {"source": source, "region": "KNEE", "metric": PRIMARY_METRIC, "scheduler": name, "mean": mean}
            for source, by_name in means.items()
            for name, mean in by_name.items()
        ]

    style = {"scorpio_style_slo_guard": 2.0}
    two = {"azure_like": {"fifo": 1.0, "edf": 1.0} | style, "burstgpt_like": {"fifo": 0.5, "edf": 0.6} | style}
    found = run_test("best_everywhere", {"ranking": make(tmp_path, "ranking", rows(two))})
    assert found.values == {"best_everywhere": 1}
    assert found.holds is False
    two["azure_like"]["edf"] = 0.9
    assert run_test("best_everywhere", {"ranking": make(tmp_path, "ranking", rows(two))}).holds


def test_zero_completions_and_zero_violations_are_told_apart(tmp_path):
    rows = [
        {"source": source, "region": "KNEE", "completion_fraction": share, "slo_violation_rate": rate}
        for source, share, rate in (
            ("azure_like", 1.0, 0.0),
            ("bailian_like", 0.0, np.nan),
            ("burstgpt_like", 1.0, 0.2),
        )
    ]
    found = run_test("fifo_zero_completions", {FIFO_CELLS: make(tmp_path, "cells", rows)})
    assert found.values == {"total": 1, "azure": 0, "bailian": 1, "burstgpt": 0}
    assert found.note.startswith("records without a late request: 1 of 3")


def test_constructed_requests_show_what_schedulers_heed(study):
    for name in ("kv_cap_ignored", "slo_deadline_users"):
        outcome = evaluate(study["claims"][f"portability.{name}"], {})
        assert outcome.finding.holds is False
    assert run_test("reads_deadline", {}, scheduler="fifo").values == {"reads_deadline": 0}


def test_the_later_windows_follow_another_rule_than_the_pilot(study, monkeypatch):
    claim = study["claims"]["portability.window_rule_continued"]
    finding = evaluate(claim, {}).finding
    assert finding.values == {"same_rule": 0}
    assert finding.note.count("0 of 30") == 3

    monkeypatch.setattr(
        sampling, "extension_starts", lambda *trace_and_pilot: sampling.stage0_starts(*trace_and_pilot[:3], count=30)
    )
    assert evaluate(claim, {}).finding == Finding({"same_rule": 1}, True, finding.note.replace("0 of 30", "30 of 30"))


def test_prefill_is_free_in_the_campaigns_engine(study, monkeypatch):
    claim = study["claims"]["portability.prefill_mode"]
    finding = evaluate(claim, {}).finding
    assert finding == Finding({"prefill_modelled": 0}, False, "0 of 3 schedulers delayed")

    def slow(requests, *arguments):
        outcome = fixed_step_run(requests, *arguments)
        return replace(outcome, first_token_step=outcome.first_token_step + requests[0].prompt_tokens // 512)

    fixed_step_run = fixed_step.run
    monkeypatch.setattr(fixed_step, "run", slow)
    assert evaluate(claim, {}).finding == Finding({"prefill_modelled": 1}, True, "3 of 3 schedulers delayed")


def test_telemetry_counts_waiting_and_evictions_only(study, monkeypatch):
    claim = study["claims"]["portability.telemetry_definitions"]
    finding = evaluate(claim, {}).finding
    assert (finding.values, finding.holds) == ({"admitted_not_run": 0, "reordered": 0}, False)
    assert finding.note == "a request that waits while a slot is free counts 1, an eviction counts 1"

    def described(*arguments):
        outcome = fixed_step_run(*arguments)
        counters = {"admission_control_activations": 1, "preemption_or_reorder_events": 1}
        return replace(outcome, telemetry=replace(outcome.telemetry, **counters))

    fixed_step_run = fixed_step.run
    monkeypatch.setattr(fixed_step, "run", described)
    assert evaluate(claim, {}).finding.holds

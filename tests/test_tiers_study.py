"""Cells, metrics and speed-ups of the tiers study, and its commands."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.tables import read_table, write_frame
from servestudy.tiers.gains import GAIN_SCHEMA, gains
from servestudy.tiers.metrics import ALL_TIERS, METRIC_SCHEMA, metric_rows
from servestudy.tiers.outcome import Outcome
from servestudy.tiers.settings import OURS_ONLY, PRESETS, Rules
from servestudy.tiers.speedups import SPEEDUP_SCHEMA, speedups
from servestudy.tiers.study import Design, variant_name
from servestudy.tiers.workload import draw


def cells(preset, name, tiers, mixes, requests, seeds, settings=()):
    _, found = Design(preset, tiers, mixes, requests, seeds, [settings]).cells_of(name)
    return found


def outcome_of(arrival_s, first_token_s, completion_s, tier) -> Outcome:
    """Four output tokens each; the second request was restarted after two of them."""
    count = len(arrival_s)
    return Outcome(
        arrival_s=np.array(arrival_s),
        output_tokens=np.full(count, 4),
        tier=np.array(tier),
        first_scheduled_s=np.array(first_token_s) - 0.5,
        first_token_s=np.array(first_token_s),
        completion_s=np.array(completion_s),
        final_decode_tokens=np.array([4.0, 2.0, *[4.0] * (count - 2)]),
        restarts=np.array([0.0, 1.0, *[0.0] * (count - 2)]),
        migrations=np.ones(count),
        busy_s=np.array(completion_s) - np.array(first_token_s) + np.array([0.5, 0.1, *[0.5] * (count - 2)]),
        end_s=20.0,
        replicas=3,
        gpu_busy_s=30.0,
        drained_replica_s=2.0,
        moved_kv_tokens=70,
        moves_aborted=1,
    )


def test_metrics_by_hand():
    outcome = outcome_of([0.0, 1.0, 2.0], [1.0, 3.0, np.nan], [5.0, 11.0, np.nan], [0, 1, 1])
    everyone, high, low = metric_rows(outcome, 2)
    assert (everyone["tier"], everyone["of_tier"], everyone["completed"]) == (ALL_TIERS, 3, 2)
    assert everyone["ttft_mean_s"] == 1.5
    assert everyone["e2e_p90_s"] == pytest.approx(5 + 0.9 * 5)
    assert (high["tbt_mean_s"], low["tbt_mean_s"], low["tbt_published_mean_s"]) == (1.0, 2.0, 4.0)
    assert everyone["longest_wait_s"] == 18.0  # the one without a first token waits to the end
    assert (everyone["interrupted_share"], low["interruption_loss"]) == (0.5, pytest.approx(0.4 / 10))
    assert (everyone["restarts"], high["restarts"], low["migrations"]) == (1, 0, 2)
    assert (everyone["gpu_paid_s"], everyone["usd"]) == (60.0, pytest.approx(0.05))


def test_a_tier_without_requests_has_no_latencies():
    *_, empty = metric_rows(outcome_of([0.0, 1.0], [1.0, 3.0], [5.0, 11.0], [0, 0]), 2)
    assert (empty["of_tier"], empty["completed"]) == (0, 0)
    assert np.isnan([empty["ttft_mean_s"], empty["e2e_p99_s"], empty["longest_wait_s"]]).all()


def test_every_setting_that_only_ours_reads_is_a_rule():
    assert Rules.__dataclass_fields__.keys() >= OURS_ONLY


def test_a_variant_is_named_by_what_the_system_reads():
    assert variant_name("ours", ["migration=off", "batch_cap=true"]) == "batch_cap=true,migration=off"
    assert variant_name("infaas_vllm", ["migration=off", "batch_cap=true"]) == "published"
    assert variant_name("infaas_vllm", ["time_limit_s=inf", "batch_cap=true"]) == "time_limit_s=inf"


@pytest.fixture(scope="module")
def metrics() -> pd.DataFrame:
    """A small burst under published rules; ours also without migration."""
    made = [
        row
        for system, settings in (
            ("infaas_vllm", ()),
            ("round_robin_vllm", ()),
            ("ours", ()),
            ("ours_one_tier", ()),
            ("ours", ["migration=off"]),
        )
        for cell in cells("burst", system, [1, 3], ["uniform"], [300], [42], settings)
        for row in cell
    ]
    return pd.DataFrame(made, columns=METRIC_SCHEMA.names)


def test_speedups_are_ratios_to_the_reference(metrics):
    table = speedups(metrics)
    whole = metrics[metrics["tier"] == ALL_TIERS].set_index(["system", "variant", "tiers"])
    for row in table.itertuples():
        reference = {
            "baseline": ("infaas_vllm", "published", row.tiers),
            "one_tier": ("ours_one_tier", row.variant, row.tiers),
            "k1": ("ours", row.variant, 1),
        }[row.reference]
        ours, theirs = whole.loc[(row.system, row.variant, row.tiers)], whole.loc[reference]
        assert row.e2e_p99_speedup == theirs["e2e_p99_s"] / ours["e2e_p99_s"]
        assert row.ttft_mean_speedup == theirs["ttft_mean_s"] / ours["ttft_mean_s"]
        assert (row.completed, row.completed_by_reference) == (ours["completed"], theirs["completed"])
    found = table.groupby(["system", "variant", "reference"]).size().to_dict()
    assert found == {
        ("ours", "migration=off", "baseline"): 2,
        ("ours", "migration=off", "k1"): 2,
        ("ours", "published", "baseline"): 2,
        ("ours", "published", "k1"): 2,
        ("ours", "published", "one_tier"): 2,
        ("ours_one_tier", "published", "baseline"): 2,
        ("round_robin_vllm", "published", "baseline"): 2,
    }


def test_the_studys_cost_per_latency_is_the_p99_speedup_again(metrics):
    """Run cost is replicas x time limit x price, the same for both, over the P99 of each."""
    run_cost = 4 * 60 / 3600 * 3.0
    table = speedups(metrics)
    rows = table[(table["reference"] == "baseline") & (table["system"] == "ours")]
    whole = metrics[metrics["tier"] == ALL_TIERS].set_index(["system", "variant", "tiers"])["e2e_p99_s"]
    for row in rows.itertuples():
        ours, theirs = whole[row.system, row.variant, row.tiers], whole["infaas_vllm", "published", row.tiers]
        gain = 1 - (run_cost / theirs) / (run_cost / ours)
        assert row.cost_per_latency_gain == pytest.approx(gain, rel=1e-12)


def test_speedups_of_nothing_and_of_a_cell_twice_are_told(metrics):
    with pytest.raises(UserError, match="no cell has a reference: add the metrics of infaas_vllm"):
        speedups(metrics[metrics["system"] == "round_robin_vllm"])
    with pytest.raises(UserError, match=r"the cell \{'system': 'infaas_vllm'.* stands twice"):
        speedups(pd.concat([metrics, metrics]))


def test_blind_systems_are_simulated_once_and_split_by_the_tiers_of_each_cell():
    two, three = cells("burst", "round_robin_vllm", [2, 3], ["gaussian_v2"], [200], [42])
    assert two[0]["e2e_p99_s"] == three[0]["e2e_p99_s"]
    for tiers, rows in ((2, two), (3, three)):
        drawn = draw(replace(PRESETS["burst"].workload, requests=200), "gaussian_v2", tiers, 42)
        assert [row["of_tier"] for row in rows[1:]] == np.bincount(drawn.tier).tolist()


def test_commands_write_the_same_bytes_twice_and_speedups_from_them(tmp_path):
    files = []
    for copy in ("a", "b"):
        files.append(tmp_path / f"{copy}.parquet")
        arguments = ["--tiers", "1", "2", "--mixes", "uniform", "--requests", "150", "--out", str(files[-1])]
        assert main(["tiers", "--systems", "infaas_vllm", "ours", *arguments]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    out = [f"--{name}={tmp_path / name}" for name in ("metrics", "speedups", "gains")]
    assert main(["tiers-analyse", "--cells", str(files[0]), *out]) == 0
    table = read_table(tmp_path / "speedups", SPEEDUP_SCHEMA).to_pandas()
    assert table["reference"].tolist() == ["baseline", "k1", "baseline", "k1"]
    seeds = read_table(tmp_path / "gains", GAIN_SCHEMA).to_pandas()
    assert set(seeds["seeds"]) == {1}
    assert seeds["low"].isna().all()


def test_intervals_are_over_paired_seeds():
    rows = speedups(
        pd.DataFrame(
            [
                row
                for system in ("infaas_vllm", "ours", "ours_one_tier")
                for cell in cells("burst", system, [2], ["uniform"], [150], [1, 2, 3], ["streams=separate"])
                for row in cell
            ],
            columns=METRIC_SCHEMA.names,
        )
    )
    found = gains(rows).set_index(["system", "reference", "metric"]).loc[("ours", "one_tier", "e2e_p99")]
    ratios = np.log(rows[(rows["system"] == "ours") & (rows["reference"] == "one_tier")]["e2e_p99_speedup"])
    half = 4.302653 * ratios.std(ddof=1) / np.sqrt(3)
    assert (found["seeds"], found["gain"]) == (3, pytest.approx(np.exp(ratios.mean())))
    assert np.log([found["low"], found["high"]]) == pytest.approx([ratios.mean() - half, ratios.mean() + half])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--systems", "llumnix"], "unknown system 'llumnix'; allowed: infaas_vllm"),
        (["--systems", "ours", "--preset", "flood"], "unknown preset 'flood'; allowed: burst, serving, fixed"),
        (["--systems", "ours", "--mixes", "normal"], "unknown tier mix 'normal'; allowed: uniform"),
        (["--systems", "ours", "--set", "cap=1"], "unknown name 'cap'; allowed: engine, replicas"),
    ],
)
def test_what_a_user_gets_wrong_is_told_and_nothing_is_written(arguments, message, tmp_path, capsys):
    out = tmp_path / "cells.parquet"
    assert main(["tiers", *arguments, "--requests", "50", "--out", str(out)]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_table_of_another_kind_is_told(tmp_path, capsys, metrics):
    other = tmp_path / "speedups.parquet"
    write_frame(speedups(metrics), SPEEDUP_SCHEMA, other)
    out = [f"--{name}={tmp_path / name}" for name in ("metrics", "speedups", "gains")]
    assert main(["tiers-analyse", "--cells", str(other), *out]) == 1
    assert "its columns are" in capsys.readouterr().err


def test_the_baseline_completes_the_same_requests_of_a_longer_burst_within_the_limit():
    """The study's fall from 10,000 to 15,000 requests: first come first served, so only the contender's part grows."""
    limit = ["time_limit_s=3"]
    (short,), (long,) = (
        list(cells("burst", "infaas_vllm", [2], ["uniform"], [volume], [42], limit)) for volume in (2000, 3000)
    )
    assert 0 < short[0]["completed"] < 1000
    for name in ("completed", "e2e_p99_s", "ttft_mean_s"):
        assert short[0][name] == long[0][name]


def test_outcome_of_unknown_tiers_is_not_mixed_up():
    outcome = outcome_of([0.0, 1.0], [1.0, 3.0], [5.0, 11.0], [0, 1])
    swapped = replace(outcome, tier=1 - outcome.tier)
    assert list(metric_rows(outcome, 2))[1]["e2e_mean_s"] == list(metric_rows(swapped, 2))[2]["e2e_mean_s"]

"""Rankings of numbers of tiers and systems between cells, by hand."""

import numpy as np
import pandas as pd
import pytest

from servestudy.tabulation import tiers_best_k, tiers_portability
from servestudy.tiers.portability import METRICS, by_item, compare, found_again


def cells(load: str, values: dict[int, list[float]], system: str = "ours") -> pd.DataFrame:
    """P99 by number of tiers, a value a seed; other metrics the same, attainment its opposite."""
    rows = [
        {"preset": "serving", "load": load, "kv_blocks": 7424, "mix": "uniform", "requests": 10, "variant": "published",
         "tier": -1, "system": system, "tiers": tiers, "seed": seed}
        | {metric: sign * value for metric, sign in METRICS.items()}
        for tiers, of_seeds in values.items() for seed, value in enumerate(of_seeds)
    ]  # fmt: skip
    return pd.DataFrame(rows)


CALM = cells("0.7", {1: [1.0, 1.1, 0.9], 4: [2.0, 2.1, 1.9], 10: [3.0, 3.3, 2.7]})
BUSY = cells("1.1", {1: [2.0, 2.1, 1.9], 4: [1.0, 1.1, 0.9], 10: [3.0, 0.5, 4.0]})


def table_of(frame: pd.DataFrame, metric: str = "e2e_p99_s") -> pd.DataFrame:
    return next(iter(by_item(frame, "tiers", metric).values()))


def test_one_pair_changes_places_and_the_seeds_support_it():
    found = compare(table_of(CALM), table_of(BUSY))
    assert found == {"ranked": 3, "tau_b": pytest.approx(1 / 3), "reversed_pairs": 1, "supported_reversals": 1}


def test_a_reversal_within_the_noise_is_not_supported():
    noisy = cells("1.1", {1: [2.0, 0.1, 1.9], 4: [1.0, 1.1, 0.9], 10: [3.0, 3.0, 3.0]})
    found = compare(table_of(CALM), table_of(noisy))
    assert (found["reversed_pairs"], found["supported_reversals"]) == (1, 0)


def test_one_seed_supports_nothing():
    one, two = (table_of(frame[frame["seed"] == 0]) for frame in (CALM, BUSY))
    assert compare(one, two)["supported_reversals"] == 0


def test_higher_attainment_is_better():
    assert table_of(CALM, "slo_attainment").mean().idxmin() == 1
    assert compare(table_of(CALM, "slo_attainment"), table_of(CALM))["tau_b"] == 1


def test_the_best_is_found_again_by_the_share_of_subsets_of_seeds():
    assert found_again(table_of(CALM)) == [(1, 1.0), (2, 1.0), (3, 1.0)]
    assert found_again(table_of(BUSY)) == [(1, pytest.approx(2 / 3)), (2, 1.0), (3, 1.0)]


def test_an_item_without_a_seed_is_left_out_with_that_seed():
    assert table_of(CALM[~((CALM["tiers"] == 4) & (CALM["seed"] == 1))]).shape == (2, 3)


def test_a_cell_with_one_number_of_tiers_has_no_ranking():
    assert by_item(CALM[CALM["tiers"] == 4], "tiers", "e2e_p99_s") == {}


def test_tables_compare_every_two_cells_and_leave_other_variants_out():
    other = CALM.assign(variant="headroom=zero", e2e_p99_s=np.nan)
    tables = {"serving_tier_metrics": pd.concat([CALM, BUSY, other], ignore_index=True)}
    table = tiers_portability.tabulate(tables)
    assert table["metric"].tolist() == list(METRICS)
    assert set(table["ranked_are"]) == {"numbers of tiers, ours"}
    assert table.loc[0, ["load_x", "load_y", "best_x", "best_y"]].tolist() == ["0.7", "1.1", 1, 4]
    best = tiers_best_k.tabulate(tables)
    assert len(best) == len(METRICS) * 2 * 3
    assert set(best.loc[best["load"] == "1.1", "best"]) == {4}


def test_systems_are_ranked_at_four_tiers():
    vllm = cells("0.7", {4: [9.0, 9.0, 9.0]}, "infaas_vllm")
    busy = cells("1.1", {4: [0.1, 0.1, 0.1]}, "infaas_vllm")
    table = tiers_portability.tabulate({"serving_tier_metrics": pd.concat([CALM, BUSY, vllm, busy])})
    systems = table[table["ranked_are"] == "systems, K = 4"]
    assert systems["best_x"].tolist() == ["ours"] * len(METRICS)
    assert systems["best_y"].tolist() == ["infaas_vllm"] * len(METRICS)
    assert set(systems["reversed_pairs"]) == {1}

"""Workload of the tiers study: mixes, lengths, random streams. Expected values: tables of the study."""

import math
import random

import numpy as np
import pytest

from servestudy.errors import UserError
from servestudy.tiers.lengths import FixedLengths, ZipfLengths
from servestudy.tiers.mixes import MIX_NAMES, shares
from servestudy.tiers.workload import SEPARATE, SHARED, Workload, draw

ZIPF = Workload(ZipfLengths(), requests_per_s=1250.0, requests=10_000)

GAUSSIAN_V2 = {
    2: (0.5, 0.5),
    3: (0.2256, 0.5488, 0.2256),
    4: (0.1345, 0.3655, 0.3655, 0.1345),
    5: (0.0924, 0.2414, 0.3324, 0.2414, 0.0924),
    7: (0.0548, 0.1239, 0.2022, 0.2381, 0.2022, 0.1239, 0.0548),
    8: (0.0451, 0.0955, 0.1574, 0.2021, 0.2021, 0.1574, 0.0955, 0.0451),
    9: (0.0382, 0.0762, 0.1249, 0.1680, 0.1854, 0.1680, 0.1249, 0.0762, 0.0382),
    10: (0.0330, 0.0627, 0.1013, 0.1394, 0.1636, 0.1636, 0.1394, 0.1013, 0.0627, 0.0330),
}
OTHERS = {
    ("enterprise_v2", 2): (0.25, 0.75),
    ("enterprise_v2", 3): (0.10, 0.70, 0.20),
    ("enterprise_v2", 6): (0.10, 0.175, 0.175, 0.175, 0.175, 0.20),
    ("power_law_v2", 4): (0.598, 0.212, 0.115, 0.075),
    ("gaussian_v1", 4): (0.0576, 0.2583, 0.4258, 0.2583),
    ("gaussian_v1", 5): (0.05, 0.20, 0.50, 0.20, 0.05),
    ("enterprise_v1", 4): (0.10, 0.15, 0.15, 0.60),
    ("enterprise_v1", 5): (0.10, 0.30, 0.50, 0.08, 0.02),
}


@pytest.mark.parametrize("tiers", GAUSSIAN_V2)
def test_gaussian_mix_is_the_studys_table(tiers):
    assert shares("gaussian_v2", tiers) == pytest.approx(GAUSSIAN_V2[tiers], abs=6e-5)


@pytest.mark.parametrize(("mix", "tiers"), OTHERS)
def test_other_mixes_are_the_studys_tables(mix, tiers):
    assert shares(mix, tiers) == pytest.approx(OTHERS[mix, tiers], abs=6e-4)


@pytest.mark.parametrize("mix", MIX_NAMES)
def test_shares_of_every_mix_add_up_to_one_for_every_number_of_tiers(mix):
    for tiers in range(1, 11):
        assert len(shares(mix, tiers)) == tiers
        assert math.isclose(sum(shares(mix, tiers)), 1.0)
        assert min(shares(mix, tiers)) > 0


def test_an_unknown_mix_and_no_tier_are_told():
    with pytest.raises(UserError, match="unknown tier mix 'normal'; allowed: uniform, gaussian_v2"):
        shares("normal", 3)
    with pytest.raises(UserError, match="0 tiers; allowed: 1 or more"):
        shares("uniform", 0)


def test_the_first_zipf_draws_are_the_studys():
    totals = ZipfLengths().totals(np.random.RandomState(42).random_sample(10_000))
    assert totals[:5].tolist() == [67, 310, 96, 76, 64]
    assert totals.mean() == pytest.approx(105, abs=0.5)
    assert np.percentile(totals, [25, 50, 75, 90, 95]) == pytest.approx([65, 71, 101, 205, 308], rel=0.03)
    assert totals.max() <= 512


def test_prompt_and_output_are_truncated_each():
    prompt, output = ZipfLengths().split(np.random.RandomState(42).random_sample(1))
    assert (prompt[0], output[0]) == (44, 22)  # of 67


def test_shared_stream_draws_gap_and_tier_of_a_request_in_turn():
    requests = draw(ZIPF, "uniform", 4, seed=42)
    stream = random.Random(42)
    now = 0.0
    for number in range(50):
        now += min(-math.log(1 - stream.random()) / 1250, 3 / 1250)
        assert requests.arrival_s[number] == now
        assert requests.tier[number] == int(stream.random() * 4)


def test_shared_stream_gives_all_random_mixes_the_same_arrivals_and_one_tier_others():
    uniform, gaussian = draw(ZIPF, "uniform", 2, 42), draw(ZIPF, "gaussian_v2", 7, 42)
    one, in_turn = draw(ZIPF, "uniform", 1, 42), draw(ZIPF, "round_robin", 5, 42)
    assert (uniform.arrival_s == gaussian.arrival_s).all()
    assert (one.arrival_s == in_turn.arrival_s).all()
    assert (uniform.arrival_s != one.arrival_s).any()
    assert all((uniform.prompt_tokens == other.prompt_tokens).all() for other in (gaussian, one, in_turn))
    assert in_turn.tier[:7].tolist() == [0, 1, 2, 3, 4, 0, 1]


def test_clipped_gaps_arrive_in_seven_and_a_half_seconds():
    assert draw(ZIPF, "uniform", 4, 42).arrival_s[-1] == pytest.approx(7.6, rel=0.02)


def test_separate_streams_pair_everything_over_tiers_and_mixes():
    one, four = draw(ZIPF, "uniform", 1, 7, SEPARATE), draw(ZIPF, "enterprise_v2", 4, 7, SEPARATE)
    assert (one.arrival_s == four.arrival_s).all()
    assert (one.prompt_tokens == four.prompt_tokens).all()
    assert np.bincount(four.tier) / 10_000 == pytest.approx([0.10, 0.35, 0.35, 0.20], abs=0.02)
    two, ten = draw(ZIPF, "uniform", 2, 7, SEPARATE), draw(ZIPF, "uniform", 10, 7, SEPARATE)
    assert (two.tier == ten.tier // 5).all()


@pytest.mark.parametrize("cv", [0.5, 2.0, 4.0])
def test_gamma_arrivals_have_the_mean_and_variation_asked_for(cv):
    requests = draw(Workload(FixedLengths(), 10.0, 200_000, arrivals_cv=cv), "uniform", 2, 1, SEPARATE)
    gaps = np.diff(requests.arrival_s)
    assert gaps.mean() == pytest.approx(0.1, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


def test_bad_workloads_are_told():
    with pytest.raises(UserError, match="requests_per_s is 0; allowed: a finite number above 0"):
        Workload(FixedLengths(), 0, 5)
    with pytest.raises(UserError, match="unknown random streams 'own'; allowed: shared, separate"):
        draw(ZIPF, "uniform", 2, 1, "own")
    with pytest.raises(UserError, match=r"arrivals_cv is 2\.0 with shared streams; use separate streams"):
        draw(Workload(FixedLengths(), 1.0, 5, 2.0), "uniform", 2, 1, SHARED)

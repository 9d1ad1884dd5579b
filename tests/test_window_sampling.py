"""The sampling rules: the published start rows, and what they become for short traces."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servestudy.errors import UserError
from servestudy.traces.registry import load_sources
from servestudy.windows.sampling import extension_starts, plan_windows, stage0_starts

PUBLISHED = ("burstgpt", "azure_llm_2024", "bailian_qwen")


@pytest.fixture(scope="module")
def published(project):
    """The windows of the three published sources, planned from the registry."""
    sources = load_sources(project / "config/sources.tsv")
    return {
        name: plan_windows(name, sources[name].rows, sources[name].skip_rows, sources[name].sampling_seed)
        for name in PUBLISHED
    }


def test_the_120_published_start_rows(published):
    pairs = "".join(f"{w.window_id},{w.start_row}\n" for name in PUBLISHED for w in published[name])
    assert len(pairs) == 3902
    assert hashlib.sha256(pairs.encode()).hexdigest() == (
        "f6faac756e8528bca8db7962fd8b6780387a527c9d994c4e22c2fbca43f77bf0"
    )


def test_published_labels(published):
    for name, windows in published.items():
        assert [window.number for window in windows] == list(range(40))
        assert [window.chronology_stratum for window in windows] == (["EARLY"] * 20 + ["MIDDLE"] * 10 + ["LATE"] * 10)
        stage0, extension = windows[:10], windows[10:]
        assert {window.evidence_class for window in stage0} == {"STAGE0_WINDOW"}
        assert {window.evidence_class for window in extension} == {"PILOT_V2_NEW_WINDOW"}
        assert {w.sampling_seed for w in extension} == {stage0[0].sampling_seed + 1_000_000}
        assert (stage0[-1].window_id, extension[0].window_id) == (f"{name}_stage0_w09", f"{name}_pilot_v2_w10")


def test_published_windows_do_not_overlap(published):
    distances = []
    for windows in published.values():
        starts = sorted(window.start_row for window in windows)
        distances += [later - earlier for earlier, later in pairwise(starts)]
    assert min(distances) == 394


def test_one_draw_in_each_stride():
    starts = stage0_starts(10_000, 1_000, seed=7, count=9, size=200)
    assert all(1_000 + 1_000 * i <= start <= 1_800 + 1_000 * i for i, start in enumerate(starts))
    assert starts != stage0_starts(10_000, 1_000, seed=8, count=9, size=200)


def test_a_stride_of_one_window_leaves_no_choice():
    assert stage0_starts(600, 0, seed=1, count=3, size=200) == [0, 200, 400]
    assert stage0_starts(650, 50, seed=1, count=3, size=200) == [50, 250, 450]


def test_the_extension_stays_out_of_pinned_windows_and_moves_back_at_an_end():
    # Free: 0..199 is too short, 399..1000 is 601 rows; strides of 300 and 301 rows.
    for seed in range(50):
        first, second = extension_starts(1_000, 0, seed, [199], count=2, size=200)
        assert 399 <= first <= 499
        assert 699 <= second <= 800
    # Free: 0..300 and 500..800; a draw near the end of the first piece is moved back to row 100.
    starts = {extension_starts(800, 0, seed, [300], count=1, size=200)[0] for seed in range(300)}
    assert max(start for start in starts if start < 300) == 100
    assert min(start for start in starts if start >= 300) == 500


def test_skipped_rows_are_not_free():
    assert min(extension_starts(1_000, 350, seed, [600], 1)[0] for seed in range(20)) >= 350
    assert extension_starts(700, 450, 1, [500], 1) == []


@settings(deadline=None, derandomize=True)
@given(
    n_valid=st.integers(0, 12_000),
    skip_rows=st.integers(0, 1_000),
    seed=st.integers(0, 2**32),
    counts=st.tuples(st.integers(1, 12), st.integers(0, 30)),
)
def test_planned_windows_fit_without_overlap_and_no_more_would(n_valid, skip_rows, seed, counts):
    if n_valid - skip_rows < 200:
        with pytest.raises(UserError, match=f"source x: no window of 200 .* its {n_valid} valid rows"):
            plan_windows("x", n_valid, skip_rows, seed, *counts)
        return
    windows = plan_windows("x", n_valid, skip_rows, seed, *counts)
    stage0 = [window.start_row for window in windows if window.evidence_class == "STAGE0_WINDOW"]
    extension = [window.start_row for window in windows if window.evidence_class != "STAGE0_WINDOW"]
    assert len(stage0) == min(counts[0], (n_valid - skip_rows) // 200)
    assert stage0 == stage0_starts(n_valid, skip_rows, seed, len(stage0))
    starts = sorted(stage0 + extension)
    assert starts[0] >= skip_rows
    assert starts[-1] + 200 <= n_valid
    assert no_overlap(starts)
    for more in range(len(extension) + 1, counts[1] + 1):
        longer = extension_starts(n_valid, skip_rows, seed, stage0, more)
        assert len(longer) < more or not no_overlap(sorted(longer))
    assert [window.number for window in windows] == list(range(len(windows)))
    assert len({window.window_id for window in windows}) == len(windows)


def no_overlap(starts):
    return all(later - earlier >= 200 for earlier, later in pairwise(starts))


def test_numbers_go_on_from_the_stage0_windows():
    windows = plan_windows("x", 5_000, 0, 1, stage0_count=3, extension_count=3)
    assert [window.window_id for window in windows] == [
        "x_stage0_w00",
        "x_stage0_w01",
        "x_stage0_w02",
        "x_pilot_v2_w03",
        "x_pilot_v2_w04",
        "x_pilot_v2_w05",
    ]
    assert [window.chronology_stratum for window in windows[3:]] == ["EARLY", "MIDDLE", "LATE"]

"""What the study published and its public 40-window means allow to recompute: classes, effects, taus, rhos."""

import numpy as np
import pytest
import yaml

from servestudy.statistics import agreement, reversals
from servestudy.statistics.window_values import WindowValues

REGIONS = ("KNEE", "HIGH_PRESSURE")


@pytest.fixture(scope="module")
def reported(shared):
    path = shared / "reported/portability.yaml"
    if not path.is_file():
        pytest.skip(f"reference data not found: {path}")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def published_means(reported):
    """The means of two regions as values of a single window."""
    means = reported["policy_means_anwg"]
    sources = ("azure_llm_2024", "bailian_qwen", "burstgpt")
    schedulers = tuple(sorted(means["burstgpt|KNEE"]))
    values = {
        source: np.array([[[[means[f"{source}|{region}"][name]] for name in schedulers]] for region in REGIONS])
        for source in sources
    }
    windows = {source: ("mean",) for source in sources}
    return WindowValues(sources, REGIONS, ("arrival_normalized_weighted_goodput",), schedulers, windows, values)


def test_reversal_classes_of_two_regions(published_means):
    """No record of the study is of the wide class, so its classes follow from the means alone."""
    table = reversals.analyse(published_means).query("rule == 'published'")
    counts = table.groupby(["region", "reversal_class"]).size()
    for region, stable, microscopic, supported in (("KNEE", 149, 10, 6), ("HIGH_PRESSURE", 145, 12, 8)):
        assert counts[region].to_dict() == {
            "STABLE_NO_SIGN_CHANGE": stable,
            "MICROSCOPIC_SIGN_CHANGE": microscopic,
            "SUPPORTED_PRACTICAL_REVERSAL": supported,
        }


def test_supported_reversals_and_their_effects(published_means, reported):
    supported = reversals.analyse(published_means).query("rule == 'published' and p.notna()")
    assert (supported["source_y"] == "burstgpt").all()
    largest = supported.loc[supported["effect"].idxmax()]
    claim = reported["claims"]["portability.largest_reversal"]
    assert largest["effect"] == pytest.approx(claim["reported"]["effect"], abs=1e-9)
    assert (largest["scheduler_a"], largest["scheduler_b"]) == ("slai_faithful", "vllm_faithful")
    assert (supported["effect"] == largest["effect"]).sum() == 2  # Azure and Bailian tie exactly


def test_taus_and_rhos_of_two_regions(published_means, reported):
    table = agreement.analyse(published_means).set_index(["region", "source_x", "source_y"])
    rows = [row for row in reported["primary_tau"]["rows"] if row["region"] in REGIONS]
    assert len(rows) == 6
    for row in rows:
        ours = table.loc[(row["region"], row["x"], row["y"])]
        assert ours["tau_b"] == pytest.approx(row["tau"], abs=1e-9)
        assert ours["rho"] == pytest.approx(row["rho"], abs=1e-9)
        assert ours["top1_overlap"] == row["top1_overlap"]

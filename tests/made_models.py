"""Tables of both engine models for tests: small, with values that are known by hand."""

import numpy as np
import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.reversal_rules import STABLE, SUPPORTED

A, B = "azure_made", "burstgpt_made"
PAIR = {"scheduler_a": "slai_faithful", "scheduler_b": "vllm_faithful"}
OTHER = {"scheduler_a": "edf", "scheduler_b": "fifo"}


def ranking(means, source=A, region="KNEE", metric=PRIMARY_METRIC):
    rows = [(source, region, metric, name, mean) for name, mean in means.items()]
    return pd.DataFrame(rows, columns=["source", "region", "metric", "scheduler", "mean"])


def agreement(tau=0.5, low=0.2, high=0.8, region="KNEE"):
    row = {"metric": PRIMARY_METRIC, "region": region, "source_x": A, "source_y": B}
    return pd.DataFrame([{**row, "tau_b": tau, "tau_low": low, "tau_high": high}])


def reversals(*rows):
    """Of (pair, class) at KNEE between the two sources, by the published rule."""
    place = {"rule": "published", "metric": PRIMARY_METRIC, "region": "KNEE", "source_x": A, "source_y": B}
    return pd.DataFrame([{**place, **pair, "reversal_class": label} for pair, label in rows])


def difference(*rows):
    """Of (source, difference, low, high) at HIGH_PRESSURE."""
    table = pd.DataFrame(rows, columns=["source", "difference", "low", "high"]).assign(region="HIGH_PRESSURE")
    return table.assign(sign=np.where(table["low"] > 0, 1, np.where(table["high"] < 0, -1, 0)))


def curves(probability, is_first=True):
    keys = {"metric": PRIMARY_METRIC, "rule": "published", "n_windows": 5, "n_draws": 500}
    rows = [
        {"source": source, "criterion": criterion, **keys, "probability": probability, "is_first_n": is_first}
        for source in (A, B)
        for criterion in ("exact", "top1", "top3")
    ]
    return pd.DataFrame(rows)


def distinctness(*equals, source=A, region="KNEE"):
    """A window for each text, as `edf = fifo`."""
    return pd.DataFrame({"source": source, "region": region, "n_distinct": 3, "equals": equals})


def made_models():
    """All tables of both models: the published one has the reversal of the pair, the serving one has another."""
    cross = pd.DataFrame({"source": A, "region": "KNEE", "metric_a": "mean_ttft", "metric_b": "p95_ttft"}, index=[0, 1])
    return {
        "claims": pd.DataFrame({"claim": ["portability.mean_tau"], "reported": ["mean = 0.7"]}),
        "published/ranking": ranking({"edf": 0.9, "fifo": 0.5, "slai_faithful": 0.7}),
        "serving/ranking": ranking({"edf": 0.2, "fifo": 0.4, "slai_faithful": 0.3}),
        "published/agreement_intervals": agreement(),
        "serving/agreement_intervals": agreement(-0.25, -0.5, 0.1),
        "published/reversals": reversals((PAIR, SUPPORTED), (OTHER, STABLE)),
        "serving/reversals": reversals((PAIR, STABLE), (OTHER, SUPPORTED)),
        "published/pair_difference": difference((A, 0.25, 0.125, 0.375), (B, -0.5, -0.75, -0.25)),
        "serving/pair_difference": difference((A, 0.5, 0.25, 0.75), (B, 0.125, -0.25, 0.5)),
        "published/cross_metric_agreement": cross.assign(tau_b=[0.5, -0.25], top1_agrees=[1.0, 0.0]),
        "serving/cross_metric_agreement": cross.assign(tau_b=[-0.5, -0.25], top1_agrees=[0.0, 0.0]),
        "published/sample_complexity": curves(0.95),
        "serving/sample_complexity": curves(0.5, is_first=False),
        "published/distinctness": distinctness("edf = fifo", "edf = fifo, slai_faithful = x"),
        "serving/distinctness": distinctness("edf = fifo", ""),
    }

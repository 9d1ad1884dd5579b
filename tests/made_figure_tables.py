"""Tables for tests of the figures, and what draws them."""

from importlib import import_module
from itertools import combinations, product

import numpy as np
import pandas as pd

from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.plotting import descriptor_ecdf, slo_sensitivity
from servestudy.plotting.registry import FIGURES
from servestudy.plotting.style import Context, save
from servestudy.statistics import reversal_rules
from servestudy.workload import REGIONS

CONTEXT = Context("a trace set (synthetic)", "published")
SOURCES = ("azure_made", "burstgpt_made", "made")
SCHEDULERS = ("edf", "fifo", "slai")
KEYS = {
    "metric": [PRIMARY_METRIC, "mean_ttft"],
    "region": list(REGIONS),
    "source": list(SOURCES),
    "rule": ["published", "oriented"],
    "slo_rule": ["independent", "paired"],
    "multiplier": [10, 40],
    "criterion": ["exact", "top1", "top3"],
    "n_windows": [5, 10, 20],
    "counted": ["condition", "window"],
    "window": [0, 1, 2, 3],
}
PAIRS = {
    "source_x": SOURCES,
    "scheduler_a": SCHEDULERS,
    "metric_a": sorted(metric.name for metric in METRICS),
}
VALUES = {
    "reversal_class": reversal_rules.CLASSES,
    "outcome": list(slo_sensitivity.OUTCOMES),
    "n_schedulers": [3],
    "n_distinct": [1, 2, 3],
    "n_draws": [500],
    "n": [40],
}


def made(*keys, **columns):
    """One row for each combination of the keys (a pair where a key is the first of one), and columns of its values."""
    second = {"source_x": "source_y", "scheduler_a": "scheduler_b", "metric_a": "metric_b"}
    choices = [list(combinations(PAIRS[key], 2)) if key in PAIRS else [(value,) for value in KEYS[key]] for key in keys]
    names = [name for key in keys for name in ((key, second[key]) if key in second else (key,))]
    table = pd.DataFrame([sum(row, ()) for row in product(*choices)], columns=names)
    for name in columns.pop("cycled", ()):
        table[name] = [VALUES[name][place % len(VALUES[name])] for place in range(len(table))]
    for name, value in columns.items():
        table[name] = value
    return table


def made_tables():
    """A table of each analysis that a figure reads; the values are plausible, not computed."""
    rng = np.random.default_rng(0)

    def shares(table, *names):
        for name in names:
            table[name] = rng.random(len(table)).round(3)
        return table

    pairs = ("metric", "region", "source_x")
    splits = pd.DataFrame(
        [
            ("burstgpt_made", "tercile", True, "EARLY", "LATE"),
            ("burstgpt_made", "start_row", False, "EARLY", "LATE"),
            ("azure_made", "calendar", True, "AT_OR_AFTER_BOUNDARY", "BEFORE_BOUNDARY"),
            ("made", "position", False, "FIRST", "SECOND"),
            ("made", "start_row", False, "EARLY", "LATE"),
        ],
        columns=["source", "rule", "published", "group_x", "group_y"],
    )
    conditions = made("metric", "source", "region", "counted", cycled=["n"])
    drivers = [("none", "all"), *product(("permuted", "alone"), (f"feature_{n}" for n in range(15)))]
    return {
        "agreement": shares(made(*pairs, cycled=["n_schedulers"]), "tau_b"),
        "agreement_intervals": shares(made(*pairs), "tau_b", "tau_low", "tau_high", "rho", "rho_low", "rho_high"),
        "reversals": made("rule", *pairs, "scheduler_a", cycled=["reversal_class"]),
        "sample_complexity": shares(
            made("source", "metric", "rule", "criterion", "n_windows", cycled=["n_draws"]), "probability"
        ),
        "temporal": shares(splits.merge(made("region"), how="cross"), "tau_b", "tau_low", "tau_high"),
        "discriminability": shares(
            pd.concat([conditions, conditions.assign(source="all"), conditions.assign(region="all")])
            .drop_duplicates(["metric", "source", "region", "counted"])
            .reset_index(drop=True),
            *("share", "low", "high"),
        ),
        "cross_metric_agreement": shares(made("source", "region", "metric_a"), "tau_b"),
        "distinctness": made("source", "region", "window", cycled=["n_schedulers", "n_distinct"]),
        "distinct_agreement": shares(made("region", "source_x"), "tau_b", "tau_b_distinct"),
        "slo_agreement": shares(
            made("slo_rule", "multiplier", "region", "source").rename(columns={"slo_rule": "rule"}),
            *("tau_b", "tau_low", "tau_high"),
        ),
        "slo_persistence": made("rule", "multiplier", "window", cycled=["outcome"]),
        "workload_features": shares(made("source", "window"), *descriptor_ecdf.DESCRIPTORS),
        "separability_drivers": shares(
            pd.DataFrame(drivers, columns=["change", "item"]).assign(folds=3),
            *("balanced_accuracy_mean", "balanced_accuracy_sd", "fall"),
        ),
    }


def draw(name, tables):
    """The figure from tables with the columns that the registry names, no other."""
    reads = FIGURES[name].reads
    return import_module(FIGURES[name].module).draw({key: tables[key][list(reads[key])] for key in reads}, CONTEXT)


def texts(figure, place=0):
    return [text.get_text() for text in figure.axes[place].texts]


def svg(figure, folder):
    save(figure, [folder / "f.svg"])
    return (folder / "f.svg").read_text(encoding="utf-8")

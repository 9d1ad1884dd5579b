"""Table: the study's headline under both engine models, one row a quantity, with a sentence; all numbers are computed.

A 95 % interval stands where the analysis has one. What the study reported is the text of the claim that is named.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.model_names import MODELS
from servestudy.models_compared import of_both, primary_means, supported_reversals, tau_between_models
from servestudy.statistics.pair_difference import PAIR
from servestudy.tabulation.first_n import first_number
from servestudy.tabulation.models_statements import (
    compared,
    pair_order,
    places_changed,
    same_schedulers,
    shared_reversals,
)
from servestudy.workload import REGIONS

Row = dict[str, object]
INTERVAL = [f"{model}_{end}" for model in MODELS for end in ("low", "high")]
NONE = "none"
MEASURED, MEASURED_REGION = "portability.hardware_reversal_not_reproduced", "HIGH_PRESSURE"
"""The study measured PAIR on a real engine at this load."""


def tabulate(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Rows: what is compared, agreement, reversals, the pair of the study's largest reversal, metrics, windows."""
    reported = dict(zip(tables["claims"]["claim"], tables["claims"]["reported"], strict=True))
    parts = (_schedulers, _agreement, _reversals, _pair, _cross_metric, _sample_complexity)
    columns = ["quantity", "published", *INTERVAL[:2], "serving", *INTERVAL[2:], "claim", "statement"]
    rows = pd.DataFrame([row for part in parts for row in part(tables)], columns=columns, dtype=object)
    rows.insert(8, "study_reported", rows["claim"].map(reported).fillna(NONE))
    rows["claim"] = rows["claim"].fillna(NONE)
    return rows


def _row(quantity: str, values: Mapping[str, object], claim: str | None = None, statement: str = "") -> Row:
    """`values` by model, without intervals."""
    sentence = statement or compared(quantity, *(values[model] for model in MODELS))
    return {"quantity": quantity, **values, **dict.fromkeys(INTERVAL, NONE), "claim": claim, "statement": sentence}


def _schedulers(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    names = {m: sorted(set(primary_means(t)["scheduler"])) for m, t in of_both(tables, "ranking").items()}
    yield _row(
        "schedulers that are compared",
        {model: len(found) for model, found in names.items()},
        statement=same_schedulers(*(names[model] for model in MODELS)),
    )
    distinct = {model: table["n_distinct"].mean() for model, table in of_both(tables, "distinctness").items()}
    yield _row("schedulers that serve some request differently, mean over windows and load regions", distinct)
    between = tau_between_models(of_both(tables, "ranking"))
    for source, rows in between.groupby("source", sort=False):
        mean = rows["tau_b"].mean()
        defined = f"over {rows['tau_b'].count()} of {len(rows)} load regions"
        text = "undefined" if pd.isna(mean) else f"{mean:.2f}"
        yield _row(
            f"tau-b between the rankings of the two models, {source}",
            dict.fromkeys(MODELS, mean),
            statement=f"On {source} the rankings of the two models agree with a mean tau-b of {text}, {defined}.",
        )


def _agreement(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    agreement = {
        model: table[table["metric"] == PRIMARY_METRIC]
        for model, table in of_both(tables, "agreement_intervals").items()
    }
    tau = {model: rows["tau_b"] for model, rows in agreement.items()}
    yield _row("mean tau-b between two sources", _each(tau, "mean"), "portability.mean_tau")
    yield _row("smallest tau-b between two sources", _each(tau, "min"), "portability.tau_range")
    yield _row("largest tau-b between two sources", _each(tau, "max"), "portability.tau_range")
    above = {model: int((rows["tau_low"] > 0).sum()) for model, rows in agreement.items()}
    yield _row("comparisons of two sources with a tau-b whose interval is above 0", above)
    keys = ["region", "source_x", "source_y"]
    sides = [rows.set_index(keys)[["tau_b", "tau_low", "tau_high"]] for rows in agreement.values()]
    both = pd.concat(dict(zip(MODELS, sides, strict=True)), axis="columns", sort=False)
    for (region, source_x, source_y), row in both.iterrows():
        quantity = f"tau-b of {source_x} and {source_y} at {region}"
        yield _row(quantity, {model: row[model, "tau_b"] for model in MODELS}) | _interval(row, "tau_")


def _reversals(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    reversals = of_both(tables, "reversals")
    found = supported_reversals(reversals)
    number = {model: len(getattr(found, model)) for model in MODELS}
    yield _row("supported reversals", number, "portability.reversal_share", shared_reversals(found))
    by_region = {
        region: {model: sum(key[0] == region for key in getattr(found, model)) for model in MODELS}
        for region in REGIONS
    }
    for region, counts in by_region.items():
        yield _row(f"supported reversals at {region}", counts, "portability.reversals_load_concentrated")
    of_pairs = {model: Counter(key[3:] for key in getattr(found, model)) for model in MODELS}
    for pair in sorted({PAIR}.union(*of_pairs.values())):
        claim = "portability.reversals_one_pair" if pair == PAIR else None
        counts = {model: of_pairs[model][pair] for model in MODELS}
        yield _row(f"supported reversals of {pair[0]} and {pair[1]}", counts, claim)


def _pair(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    differences = of_both(tables, "pair_difference")
    changed = {model: places_changed(table) for model, table in differences.items()}
    yield _row(
        f"load regions in which {PAIR[0]} is ahead of {PAIR[1]} on a source and behind it on another",
        {model: len(regions) for model, regions in changed.items()},
        MEASURED,
    )
    sides = [table.set_index(["source", "region"]) for table in differences.values()]
    both = pd.concat(dict(zip(MODELS, sides, strict=True)), axis="columns", sort=False)
    for (source, region), row in both.iterrows():
        quantity = f"ANWG of {PAIR[0]} less {PAIR[1]}, {source} at {region}"
        values = {model: row[model, "difference"] for model in MODELS}
        statement = pair_order(source, region, *(row[model] for model in MODELS))
        yield _row(quantity, values, MEASURED if region == MEASURED_REGION else None, statement) | _interval(row)


def _cross_metric(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    agreement = of_both(tables, "cross_metric_agreement")
    tau = {model: table["tau_b"] for model, table in agreement.items()}
    yield _row("median tau-b between two metrics", _each(tau, "median"), "portability.cross_metric_median_tau")
    negative = {model: int((values < 0).sum()) for model, values in tau.items()}
    claim = "portability.cross_metric_negative_share"
    yield _row("comparisons of two metrics with a negative tau-b", negative, claim)
    changes = {model: 1 - table["top1_agrees"].mean() for model, table in agreement.items()}
    what = "share of comparisons of two metrics with another best scheduler"
    yield _row(what, changes, "portability.top1_metric_disagreement")


def _sample_complexity(tables: Mapping[str, pd.DataFrame]) -> Iterator[Row]:
    curves = {
        model: table[(table["metric"] == PRIMARY_METRIC) & (table["rule"] == "published")]
        for model, table in of_both(tables, "sample_complexity").items()
    }
    sources = sorted(set().union(*(rows["source"] for rows in curves.values())))
    for criterion, what in (("exact", "whole order"), ("top1", "first scheduler"), ("top3", "first three schedulers")):
        for source in sources:
            first = {
                model: first_number(rows[(rows["source"] == source) & (rows["criterion"] == criterion)])
                for model, rows in curves.items()
            }
            quantity = f"windows of {source} that recover the {what} in 90 % of draws"
            yield _row(quantity, first, f"portability.sample_complexity_{criterion}")


def _each(values: Mapping[str, pd.Series], statistic: str) -> dict[str, float]:
    return {model: float(series.agg(statistic)) for model, series in values.items()}


def _interval(row: pd.Series, prefix: str = "") -> Row:
    return {f"{model}_{end}": row[model, f"{prefix}{end}"] for model in MODELS for end in ("low", "high")}

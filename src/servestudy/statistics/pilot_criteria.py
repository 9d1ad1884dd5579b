"""The five criteria of the study's pilot, on the values at hand: do the windows tell schedulers apart?

Source: the published study's pilot: ten windows a source, three regions, six schedulers (one of them a style
approximation). Here they are evaluated on what there is of those regions and schedulers, once for the first ten windows
of each source and once for all. A triple is one source, window and region. The study recomputed the fourth criterion
with undefined violation rates taken as 0 and as 1; so do the two rows after it, which do not count for the verdict.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.discriminability import TOLERANCE, ranges
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

SCHEDULERS = (
    "fifo",
    "edf",
    "kv_constrained_online",
    "vllm_faithful",
    "sarathi_faithful",
    "vllm_style_token_budget",
)
REGIONS = ("PRE_KNEE", "KNEE", "OVERLOAD")
SCOPES = {"first_ten_windows": 10, "all_windows": None}
RELATIVE_RANGE = 0.10
PASS, FAIL, NOT_EVALUABLE = "pass", "fail", "not evaluable"

SCHEMA = pa.schema(
    [
        column("scope", pa.string(), f"windows of each source: {' or '.join(SCOPES)}"),
        column("criterion", pa.string(), "what is asked; go: all five are passed"),
        column("source", pa.string(), "id of the source for source_share, else empty"),
        column("count", pa.int32(), "triples or windows that meet it; for go: criteria passed"),
        column("of", pa.int32(), "triples or windows that can be asked; for go: criteria"),
        column("value", pa.float64(), "count over of; NaN if of is 0"),
        column("at_least", pa.float64(), "smallest value that passes"),
        column("at_most", pa.float64(), "largest value that passes"),
        column("verdict", pa.string(), f"{PASS}, {FAIL}, or {NOT_EVALUABLE} for want of values"),
        column("counts_for_go", pa.bool_(), "part of the verdict go"),
        column("schedulers", pa.string(), "schedulers of the pilot that have values, separated by commas"),
        column("regions", pa.string(), "regions of the pilot that have values, separated by commas"),
    ]
)


def _criterion(name: str, asked: np.ndarray, met: np.ndarray, at_least: float, at_most: float = 1.0, **more) -> dict:
    """A row: how many of the asked meet it."""
    of, count = int(asked.sum()), int((asked & met).sum())
    value = count / of if of else np.nan
    verdict = (PASS if at_least <= value <= at_most else FAIL) if of else NOT_EVALUABLE
    row = {"criterion": name, "source": "", "count": count, "of": of, "value": value}
    return row | {"at_least": at_least, "at_most": at_most, "verdict": verdict, "counts_for_go": True} | more


def _wide(array: np.ndarray) -> np.ndarray:
    """Whether the range of [triple, scheduler] exceeds a tenth of the smallest value, or 0 where that is 0."""
    return ranges(array.T) > RELATIVE_RANGE * np.where(np.isnan(array), np.inf, array).min(axis=1)


def criteria(triples: dict[str, np.ndarray], source: np.ndarray, window: np.ndarray) -> Iterator[dict]:
    """The criteria of arrays [triple, scheduler] by metric. `source` and `window` tell whose each triple is.

    A metric that is not there leaves its criteria not evaluable.
    """
    nothing = np.full_like(triples[PRIMARY_METRIC], np.nan)
    completion, latency, violation = (
        triples.get(name, nothing) for name in ("completion_fraction", "p95_latency", "slo_violation_rate")
    )
    of_triples = ranges(triples[PRIMARY_METRIC].T)
    comparable, non_tied = ~np.isnan(of_triples), of_triples > TOLERANCE
    yield _criterion("non_tied_triples", comparable, non_tied, 0.30)
    windows = pd.DataFrame({"window": window, "asked": comparable, "met": non_tied}).groupby("window").any()
    yield _criterion("non_tied_windows", windows["asked"].to_numpy(), windows["met"].to_numpy(), 0.50)
    known = ~np.isnan(completion).all(axis=1)
    alike = (np.where(np.isnan(completion), 1, completion) == 1).all(axis=1)
    alike |= (np.where(np.isnan(completion), 0, completion) == 0).all(axis=1)
    some = 1 / max(1, int(known.sum()))  # one triple will do
    yield _criterion("some_triple_not_degenerate", known, ~alike, some)
    measured = ~(np.isnan(ranges(latency.T)) & np.isnan(ranges(violation.T)))
    yield _criterion("meaningful_variation", non_tied & measured, _wide(latency) | _wide(violation), 0.20)
    for forced in (0, 1):
        filled = np.where(np.isnan(violation), forced, violation)
        name = f"meaningful_variation_undefined_violation_{forced}"
        given = non_tied & ("slo_violation_rate" in triples)
        yield _criterion(name, given, _wide(latency) | _wide(filled), 0.20, counts_for_go=False)
    for name in np.unique(source):
        yield _criterion("source_share", non_tied, source == name, 0.15, 0.70, source=name)


def _triples(values: WindowValues, n_windows: int | None) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Arrays [triple, scheduler] by metric, source and window of each triple."""
    places = [values.regions.index(region) for region in REGIONS if region in values.regions]
    arrays = {source: values.values[source][places][..., :n_windows] for source in values.sources}
    triples = {
        metric: np.concatenate(
            [array[:, place].transpose(0, 2, 1).reshape(-1, len(values.schedulers)) for array in arrays.values()]
        )
        for place, metric in enumerate(values.metrics)
    }
    keys = [
        (source, f"{source}/{window}")
        for source in values.sources
        for _ in places
        for window in values.windows[source][:n_windows]
    ]
    return triples, np.array([key[0] for key in keys]), np.array([key[1] for key in keys])


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA, the verdict `go` last in each scope; none without ANWG, or any of the pilot's regions."""
    schedulers = [name for name in SCHEDULERS if name in values.schedulers]
    regions = [region for region in REGIONS if region in values.regions]
    if PRIMARY_METRIC not in values.metrics or not regions or not schedulers:
        return pd.DataFrame(columns=SCHEMA.names)
    subset = {"schedulers": ",".join(schedulers), "regions": ",".join(regions)}
    rows = []
    for scope, n_windows in SCOPES.items():
        of_scope = list(criteria(*_triples(values.only(schedulers), n_windows)))
        verdicts = {}
        for row in of_scope:
            if row["counts_for_go"]:
                verdicts.setdefault(row["criterion"], []).append(row["verdict"])
        passed = np.array([set(found) == {PASS} for found in verdicts.values()])
        go = _criterion("go", np.ones(len(passed), bool), passed, 1.0, counts_for_go=False)
        if not any(FAIL in found for found in verdicts.values()) and not passed.all():
            go["verdict"] = NOT_EVALUABLE
        rows += [{"scope": scope, **row, **subset} for row in [*of_scope, go]]
    return pd.DataFrame(rows, columns=SCHEMA.names)

"""What each arm of the audit changes: rankings, agreement between sources, supported reversals, one pair of schedulers.

All by the study's own procedures on its primary metric, so that an arm differs from the run in its one rule.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.audit.values import DUPLICATES, RUN, Arms, arms_of, of_metric
from servestudy.metrics import PRIMARY_METRIC
from servestudy.schedulers.registry import primary_schedulers
from servestudy.statistics import pair_difference, reversals
from servestudy.statistics.agreement_intervals import compare_with_intervals
from servestudy.statistics.published_order import generator
from servestudy.statistics.reversal_rules import RULES, SUPPORTED
from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column, write_frame

COMPLETED = "completion_fraction"

ARM = [
    column("switch", pa.string(), "id of the defect; empty for the run itself"),
    column("arm", pa.string(), "how it is switched"),
]
SCHEMAS = {
    "audit_rankings": pa.schema(
        [
            *ARM,
            column("source", pa.string(), "id of the source"),
            column("region", pa.string(), "load region"),
            column("scheduler", pa.string(), "name of the scheduler"),
            column("ran_again", pa.bool_(), "its values differ from the run's somewhere"),
            column("anwg", pa.float64(), "mean ANWG over windows"),
            column("anwg_of_run", pa.float64(), "the same in the run itself"),
            column(
                "rank",
                pa.int32(),
                "place by mean ANWG among the primary schedulers, 1 is best; ties share; 0: not primary",
            ),
            column("rank_of_run", pa.int32(), "the same in the run itself"),
            column("completion_fraction", pa.float64(), "mean share of requests that completed"),
            column("completion_fraction_of_run", pa.float64(), "the same in the run itself"),
        ]
    ),
    "audit_agreement": pa.schema(
        [
            *ARM,
            column("region", pa.string(), "load region"),
            column("source_x", pa.string(), "first source of the pair, by name"),
            column("source_y", pa.string(), "second source"),
            column("n_schedulers", pa.int32(), "schedulers with a value on both sides"),
            column("tau_b", pa.float64(), "Kendall's tau-b of the ANWG rankings; NaN if a side is constant"),
            column("tau_low", pa.float64(), "low end of its 95 % percentile interval over resampled windows"),
            column("tau_high", pa.float64(), "high end"),
            column("tau_of_run", pa.float64(), "tau-b in the run itself"),
        ]
    ),
    "audit_reversals": pa.schema(
        [
            *ARM,
            column("status", pa.string(), "kept, vanished or new, against the run; of the run itself: run"),
            *(
                column(name, pa.string(), reversals.SCHEMA.field(name).metadata[b"meaning"].decode())
                for name in ("region", "source_x", "source_y", "scheduler_a", "scheduler_b", "reversal_class")
            ),
            *(
                column(name, pa.float64(), reversals.SCHEMA.field(name).metadata[b"meaning"].decode())
                for name in ("difference_x", "low_x", "high_x", "difference_y", "low_y", "high_y", "effect")
            ),
        ]
    ),
    "audit_difference": pa.schema([*ARM, *pair_difference.SCHEMA]),
}


def analyse(
    cells: Sequence[Path | str],
    ablations: Sequence[Path | str],
    schedulers: Sequence[str],
    regions: Sequence[str],
) -> dict[str, pd.DataFrame]:
    """Tables by name, rows as SCHEMAS say. Raises UserError as `arms_of`."""
    arms = arms_of(cells, ablations, schedulers, regions)
    primary = [name for name in schedulers if name in primary_schedulers()]
    ranked = {
        key: of_metric(values if key == DUPLICATES else values.only(primary), PRIMARY_METRIC)
        for key, values in arms.items()
    }
    ranked[DUPLICATES] = ranked[DUPLICATES].only([n for n in ranked[DUPLICATES].schedulers if n in primary])
    return {
        "audit_rankings": rankings(arms, primary),
        "audit_agreement": agreement(ranked),
        "audit_reversals": supported(ranked),
        "audit_difference": difference(ranked),
    }


def write_analyses(tables: dict[str, pd.DataFrame], out: dict[str, Path]) -> None:
    """Write each table to its path."""
    for name, path in out.items():
        write_frame(tables[name], SCHEMAS[name], path)


def rankings(arms: Arms, primary: Sequence[str]) -> pd.DataFrame:
    """Mean ANWG, rank and completion of every scheduler, beside those of the run."""
    run = _means(arms[RUN], primary)
    frames = []
    for (switch, arm), values in arms.items():
        own = _means(values, primary)
        frame = own.join(run.add_suffix("_of_run"))
        frame["ran_again"] = [
            not np.array_equal(_of(values, source, region, name), _of(arms[RUN], source, region, name), equal_nan=True)
            for source, region, name in frame.index
        ]
        frames.append(frame.reset_index().assign(switch=switch, arm=arm))
    return pd.concat(frames, ignore_index=True)[SCHEMAS["audit_rankings"].names]


def _of(values: WindowValues, source: str, region: str, scheduler: str) -> np.ndarray:
    """Array [metric, window] of one scheduler."""
    return values.values[source][values.regions.index(region), :, values.schedulers.index(scheduler)]


def _means(values: WindowValues, primary: Sequence[str]) -> pd.DataFrame:
    rows = []
    for source in values.sources:
        for region in values.regions:
            anwg, done = (
                [mean_of_defined(row) for row in values.of(source, region, metric)]
                for metric in (PRIMARY_METRIC, COMPLETED)
            )
            ranked = [value for name, value in zip(values.schedulers, anwg, strict=True) if name in primary]
            for name, value, completed in zip(values.schedulers, anwg, done, strict=True):
                rank = 1 + sum(other > value for other in ranked) if name in primary else 0
                rows.append((source, region, name, value, rank, completed))
    names = ["source", "region", "scheduler", "anwg", "rank", "completion_fraction"]
    return pd.DataFrame(rows, columns=names).set_index(names[:3])


def agreement(ranked: Arms) -> pd.DataFrame:
    """tau-b of every pair of sources with its interval, beside that of the run; each arm draws the same windows."""
    rows, of_run = [], {}
    for (switch, arm), values in ranked.items():
        rng = generator()
        for region in values.regions:
            for source_x, source_y in combinations(values.sources, 2):
                x, y = (values.of(source, region, PRIMARY_METRIC) for source in (source_x, source_y))
                found = compare_with_intervals(x, y, values.schedulers, PRIMARY_METRIC, rng)
                place = {"region": region, "source_x": source_x, "source_y": source_y}
                of_run.setdefault(tuple(place.values()), found["tau_b"])
                tau_of_run = of_run[tuple(place.values())]
                rows.append({"switch": switch, "arm": arm, **place, **found, "tau_of_run": tau_of_run})
    return pd.DataFrame(rows, columns=SCHEMAS["audit_agreement"].names)


def supported(ranked: Arms) -> pd.DataFrame:
    """The supported reversals of each arm by the published rule; those of the run that vanish stand there too."""
    keys = ["region", "source_x", "source_y", "scheduler_a", "scheduler_b"]
    frames = []
    of_run: set[tuple] = set()
    for (switch, arm), values in ranked.items():
        table = reversals.analyse(values)
        table = table[table["rule"] == RULES[0]].set_index(keys)
        found = set(table.index[table["reversal_class"] == SUPPORTED])
        if (switch, arm) == RUN:
            of_run = found
        shown = table[table.index.isin(found | of_run)].reset_index()
        gone = of_run - found - set(table.index)  # a scheduler of the pair is merged into another
        status = [_status(tuple(row), found, of_run, (switch, arm)) for row in shown[keys].to_numpy()]
        shown = shown.assign(switch=switch, arm=arm, status=status)
        merged = pd.DataFrame(sorted(gone), columns=keys).assign(
            switch=switch, arm=arm, status="vanished", reversal_class="MERGED"
        )
        frames.append(pd.concat([shown, merged]) if gone else shown)
    return pd.concat(frames, ignore_index=True).reindex(columns=SCHEMAS["audit_reversals"].names)


def _status(key: tuple, found: set[tuple], of_run: set[tuple], arm: tuple[str, str]) -> str:
    if arm == RUN:
        return "run"
    if key not in of_run:
        return "new"
    return "kept" if key in found else "vanished"


def difference(ranked: Arms) -> pd.DataFrame:
    """`pair_difference` of each arm."""
    frames = [
        pair_difference.analyse(values).assign(switch=switch, arm=arm) for (switch, arm), values in ranked.items()
    ]
    return pd.concat(frames, ignore_index=True)[SCHEMAS["audit_difference"].names]

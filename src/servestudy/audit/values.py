"""Window values of every arm: the run's own, with those of the schedulers that ran again in their place."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from servestudy.audit.ablation import AUDIT_SCHEMA
from servestudy.errors import UserError
from servestudy.statistics.outcomes import groups_of_equals, read_outcomes
from servestudy.statistics.window_values import WindowValues, load_values
from servestudy.tables import read_table

RUN = ("", "published")
"""Key of the run itself among the arms."""
DUPLICATES = ("equal_policies", "one_of_each")
"""The arm that is an analysis only: of schedulers that behave alike in every cell, the first by name counts."""

Arms = dict[tuple[str, str], WindowValues]


def arms_of(
    cells: Sequence[Path | str], ablations: Sequence[Path | str], schedulers: Iterable[str], regions: Sequence[str]
) -> Arms:
    """Values by (switch, arm), the run itself first, then in the order of the files; `regions` only.

    Raises UserError as `load_values`, or if a cell of an arm is not a cell of the run.
    """
    schedulers = list(schedulers)
    run = _in_regions(load_values(cells, schedulers), regions)
    tables = [read_table(path, AUDIT_SCHEMA).to_pandas() for path in ablations]
    arms: Arms = {RUN: run}
    if tables:
        rows = pd.concat(tables, ignore_index=True)
        rows = rows[rows["scheduler"].isin(schedulers)]
        for key, of_arm in rows.groupby(["switch", "arm"], sort=False):
            arms[key] = _replaced(run, of_arm)
    arms[DUPLICATES] = run.only(one_of_each(cells, run))
    return arms


def one_of_each(cells: Sequence[Path | str], values: WindowValues) -> list[str]:
    """Schedulers of `values`, without those that serve every request of all its cells as one before them by name."""
    outcomes = read_outcomes(cells)
    outcomes = outcomes[outcomes["region"].isin(values.regions) & outcomes["scheduler"].isin(values.schedulers)]
    by_cell = outcomes.pivot(
        index="scheduler", columns=["source", "window_id", "region"], values="outcome_sha256"
    ).fillna("")
    groups = groups_of_equals({name: tuple(by_cell.loc[name]) for name in values.schedulers})
    kept = {group[0] for group in groups}
    return [name for name in values.schedulers if name in kept]


def _in_regions(values: WindowValues, regions: Sequence[str]) -> WindowValues:
    kept = tuple(region for region in values.regions if region in regions)
    places = [values.regions.index(region) for region in kept]
    arrays = {source: array[places] for source, array in values.values.items()}
    return WindowValues(values.sources, kept, values.metrics, values.schedulers, values.windows, arrays)


def _replaced(run: WindowValues, rows: pd.DataFrame) -> WindowValues:
    arrays = {source: array.copy() for source, array in run.values.items()}
    metrics = list(run.metrics)
    measured = rows[metrics].to_numpy(dtype=float)
    keys = rows[["source", "region", "scheduler", "window_id"]].itertuples(index=False)
    windows = {source: {name: place for place, name in enumerate(names)} for source, names in run.windows.items()}
    for key, row in zip(keys, measured, strict=True):
        if key.region not in run.regions or key.window_id not in windows.get(key.source, {}):
            raise UserError(
                f"cell {key.source} / {key.window_id} / {key.region} of an arm is not one of the run's; run "
                "`snakemake --forcerun simulate_ablation`"
            )
        region, scheduler = run.regions.index(key.region), run.schedulers.index(key.scheduler)
        arrays[key.source][region, :, scheduler, windows[key.source][key.window_id]] = row
    return WindowValues(run.sources, run.regions, run.metrics, run.schedulers, run.windows, arrays)


def of_metric(values: WindowValues, metric: str) -> WindowValues:
    """The values of one metric."""
    place = values.metrics.index(metric)
    arrays = {source: np.ascontiguousarray(array[:, [place]]) for source, array in values.values.items()}
    return WindowValues(values.sources, values.regions, (metric,), values.schedulers, values.windows, arrays)

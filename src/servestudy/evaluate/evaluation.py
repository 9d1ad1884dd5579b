"""Run a scheduler from a file in the panel of one engine model, and compare."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servestudy.calibration import read_lambda_ref
from servestudy.engine_model import EngineModel
from servestudy.errors import UserError
from servestudy.evaluate.comparison import Comparison, compare_with_panel
from servestudy.evaluate.findings import KINDS, Finding
from servestudy.evaluate.running import WindowJob, WindowResult, run_jobs
from servestudy.schedulers.registry import schedulers_of
from servestudy.simulation import CELL_SCHEMA
from servestudy.statistics.window_values import WindowValues, load_values
from servestudy.tables import read_table, write_table
from servestudy.windows.frozen import FrozenWindow, read_windows


@dataclass(frozen=True)
class FoundIn:
    """A finding, the first cell that had it, and in how many cells its kind was found."""

    finding: Finding
    cell: str
    cells: int


@dataclass(frozen=True)
class Evaluation:
    """What one engine model says. `comparison` is None if no cell came to an end.

    not_run: cells that were not begun, as others did not come to an end. thorough_cells: cells that were run again.
    """

    model: str
    comparison: Comparison | None
    cells: pa.Table
    n_cells: int
    not_run: int
    thorough_cells: int
    findings: list[FoundIn]
    decision_us: dict[str, float]


@dataclass(frozen=True)
class Panel:
    """The windows of a run, and who is compared on them: schedulers by source -> cells of the run, or none of it."""

    model: EngineModel
    run_dir: Path
    windows: dict[str, list[FrozenWindow]]
    lambda_ref: dict[str, dict[str, float]]
    regions: tuple[str, ...]
    fresh: bool

    def jobs(self, name: str, place: str, thorough_windows: int = 0, limit_s: float = 60.0) -> list[WindowJob]:
        return [
            WindowJob(
                self.model,
                window,
                self.lambda_ref[source][window.window_id],
                self.regions,
                name,
                place,
                number < thorough_windows,
                limit_s,
            )
            for source, windows in self.windows.items()
            for number, window in enumerate(windows)
        ]


def panel_of_run(
    model: EngineModel,
    run_dir: Path,
    sources: Iterable[str] | None,
    regions: tuple[str, ...],
    most_windows: int | None,
    fresh: bool,
) -> Panel:
    """The first `most_windows` windows of each source of a run (all, by default) under an engine model.

    Raises UserError if the run has no windows, or no calibration for this model.
    """
    there = sorted(path.stem for path in (run_dir / "windows").glob("*.parquet"))
    if not there:
        raise UserError(f"{run_dir}/windows: no windows; make them with `snakemake --cores 2` (README.md)")
    chosen = list(dict.fromkeys(sources or there))
    for source in chosen:
        if source not in there:
            raise UserError(f"source {source!r} has no windows in {run_dir}; it has {', '.join(there)}")
    windows = {source: read_windows(run_dir / f"windows/{source}.parquet")[:most_windows] for source in chosen}
    lambda_ref = {source: read_lambda_ref(run_dir / f"calibration/{model.name}/{source}.parquet") for source in chosen}
    for source in chosen:
        for window in windows[source]:
            if window.window_id not in lambda_ref[source]:
                raise UserError(f"{run_dir}: {window.window_id} has no calibration; run `snakemake --cores 2`")
    return Panel(model, run_dir, windows, lambda_ref, regions, fresh)


def evaluate(panel: Panel, name: str, place: str, processes: int, thorough_windows: int, limit_s: float) -> Evaluation:
    """Run `place`, a FILE.py:CLASS, and compare it as `name` with the panel's schedulers."""
    model = panel.model.name
    others = _panel_cells(panel, processes)
    jobs = panel.jobs(name, place, thorough_windows, limit_s)
    results = list(run_jobs(jobs, processes, f"{name}, {model} model, windows"))
    rows = [row for result in results for row in result.rows]
    cells = pa.Table.from_pylist(rows, CELL_SCHEMA)
    comparison = None
    if rows:
        comparison = compare_with_panel(_values([*others, cells], panel), name)
    n_cells = len(jobs) * len(panel.regions)
    return Evaluation(
        model,
        comparison,
        cells,
        n_cells,
        n_cells - sum(result.begun for result in results),
        sum(result.thorough_cells for result in results),
        _summary(results),
        _decision_times(results),
    )


def _panel_cells(panel: Panel, processes: int) -> list[pa.Table]:
    """Cells of the registered schedulers: of the run, after a look whether they are of this version; or new ones."""
    names = schedulers_of(panel.model.name)
    if panel.fresh:
        jobs = [job for name in names for job in panel.jobs(name, name)]
        results = run_jobs(jobs, processes, f"panel, {panel.model.name} model, windows")
        return [pa.Table.from_pylist([row for result in results for row in result.rows], CELL_SCHEMA)]
    folder = panel.run_dir / "cells" / panel.model.name
    names = [name for name in names if all((folder / source / f"{name}.parquet").is_file() for source in panel.windows)]
    if not names:
        raise UserError(
            f"{folder}: no scheduler has cells of all of {', '.join(panel.windows)}; make them with "
            "`snakemake cells --cores 2`, or simulate the panel here with --fresh"
        )
    paths = {(name, source): folder / source / f"{name}.parquet" for name in names for source in panel.windows}
    tables = {key: read_table(path, CELL_SCHEMA) for key, path in paths.items()}
    _require_current(panel, paths, tables, processes)
    return list(tables.values())


def _require_current(panel: Panel, paths: dict, tables: dict, processes: int) -> None:
    """Simulate one cell of each file again; raises UserError if it is not what the file has."""
    one_region = replace(panel, regions=panel.regions[-1:])
    first = {source: windows[:1] for source, windows in panel.windows.items()}
    jobs = [job for name in {name for name, _ in paths} for job in replace(one_region, windows=first).jobs(name, name)]
    for result in run_jobs(sorted(jobs, key=lambda job: job.name), processes, "panel, cells to compare"):
        (row,) = result.rows
        table = tables[row["scheduler"], row["source"]]
        same = pc.and_(*(pc.equal(table[key], row[key]) for key in ("window_id", "region")))
        stored = table.filter(pc.and_(same, pc.equal(table["repetition"], 0))).to_pylist()
        if repr(stored) != repr([row]):
            raise UserError(
                f"{paths[row['scheduler'], row['source']]}: its cells are not what this version simulates; run "
                "`snakemake cells --cores 2` again, give the run's own --set or --serving, or use --fresh"
            )


def _values(tables: list[pa.Table], panel: Panel) -> WindowValues:
    """The values of the chosen windows and regions."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cells.parquet"
        write_table(pa.concat_tables(tables), CELL_SCHEMA, path)
        values = load_values([path])
    regions = [values.regions.index(region) for region in panel.regions]
    chosen = {source: tuple(w.window_id for w in windows) for source, windows in panel.windows.items()}
    arrays = {}
    for source, windows in chosen.items():
        places = [values.windows[source].index(window) for window in windows]
        arrays[source] = values.values[source][regions][..., places]
    return WindowValues(tuple(chosen), panel.regions, values.metrics, values.schedulers, chosen, arrays)


def _summary(results: list[WindowResult]) -> list[FoundIn]:
    """The first finding of each kind, in the order of KINDS."""
    found: dict[str, list[tuple[str, Finding]]] = {kind: [] for kind in KINDS}
    for result in results:
        for region, finding in result.findings:
            found[finding.kind].append(
                (f"{result.job.window.source} / {result.job.window.window_id} / {region}", finding)
            )
    return [
        FoundIn(places[0][1], places[0][0], len({cell for cell, _ in places})) for places in found.values() if places
    ]


def _decision_times(results: list[WindowResult]) -> dict[str, float]:
    """Number of timed decisions, and their median and 99th percentile in microseconds."""
    times = [ns for result in results for ns in result.decision_ns if len(ns)]
    if not times:
        return {"decisions": 0, "median": np.nan, "p99": np.nan}
    us = np.concatenate(times) / 1000
    median, p99 = np.percentile(us, [50, 99])
    return {"decisions": len(us), "median": float(median), "p99": float(p99)}

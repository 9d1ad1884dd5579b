"""All analyses of a measurement, each written as a table."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.spotcheck import effects, simulator_errors
from servestudy.spotcheck.cell_values import engine_values
from servestudy.spotcheck.measurements import KEY, STEPS, read_measurements
from servestudy.spotcheck.registry import ANALYSES, Provenance
from servestudy.tables import column, read_table, write_frame

ENGINE_CELLS = pa.schema(
    [
        *(STEPS.field(name) for name in KEY),
        column("bracketed", pa.bool_(), "whether the window's sustained rate was bracketed"),
        column("rate_rps", pa.float64(), "requests a second that were offered"),
        column("anwg", pa.float64(), "share of requests done by the calibrated targets (equal weights)"),
        column("ttft_mean_s", pa.float64(), "mean time to first token, s"),
        column("ttft_p50_s", pa.float64(), "median of it, s"),
        column("ttft_p99_s", pa.float64(), "99th percentile of it, s"),
        column("latency_mean_s", pa.float64(), "mean of completion less arrival, s"),
        column("throughput_rps", pa.float64(), "requests a second over the makespan"),
        column("anwg_published_deadlines", pa.float64(), "share done by deadlines of the published study's rule"),
        column("every_token_share", pa.float64(), "share of requests all of whose tokens came by their targets"),
        column("goodput_rps", pa.float64(), "requests a second done by the calibrated targets"),
        column("gap_p99_s", pa.float64(), "99th percentile of gaps between tokens, s; NaN without a gap"),
        column("largest_gap_s", pa.float64(), "largest gap, s"),
        column("held_decodes", pa.int64(), "decodes that the scheduler let wait, over steps"),
        column("decodes", pa.int64(), "decodes made"),
        column("evictions", pa.int64(), "requests that lost their KV"),
        column("most_running", pa.int64(), "most admitted requests"),
        column(
            "tbt_in_steps", pa.float64(), "target time between tokens over the mean step; SLAI holds nothing below 5"
        ),
        column("mean_step_s", pa.float64(), "mean step, s"),
        column("late_s", pa.float64(), "largest delay of a submission, s"),
        column("busy_share", pa.float64(), "share of the time in which a GPU computed; NaN on a CPU"),
    ]
)
WINDOWS = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("window_number", pa.int32(), "number of the window within its source"),
        column("bracketed", pa.bool_(), "whether a sustained and an unsustained rate were seen"),
        column("burst_rate_rps", pa.float64(), "requests a second of a burst of all"),
        column("rate_rps", pa.float64(), "rate that the engine just sustains, or that of the burst"),
        column("tbt_s", pa.float64(), "target time between tokens, s"),
        column("ttft_s", pa.float64(), "target time to first token, s"),
    ]
)
SCHEMAS = {
    "effects": effects.EFFECTS,
    "agreement": effects.AGREEMENT,
    "engine_cells": ENGINE_CELLS,
    "simulator_errors": simulator_errors.ERRORS,
    "simulator_summary": simulator_errors.SUMMARY,
    "step_times": simulator_errors.STEP_TIMES,
    "windows": WINDOWS,
}


def analyse(folder: Path, cells: list[Path], out: Path) -> None:
    """Read the measurement in `folder` and write each of ANALYSES below `out`.

    `cells`: cells of the run, .../<model>/<source>/<scheduler>.parquet; those of other sources count for nothing.
    Raises UserError as `read_measurements`.
    """
    measured = read_measurements(folder)
    engine = engine_values(measured)
    if engine.empty:
        raise UserError(f"{folder}: no valid cell; measure again")
    effect = effects.effects(engine)
    errors = simulator_errors.with_engine(simulator_errors.simulator_errors(measured), engine)
    tables = {
        "effects": effect,
        "agreement": effects.agreement(effect, _by_model(cells)),
        "engine_cells": engine,
        "simulator_errors": errors,
        "simulator_summary": simulator_errors.summary(errors),
        "step_times": simulator_errors.step_times(measured),
        "windows": measured.calibration,
    }
    for name in ANALYSES:
        write_frame(tables[name], SCHEMAS[name], out / f"{name}.parquet")


def _by_model(cells: list[Path]) -> Mapping[str, Mapping[str, Mapping[str, Path]]]:
    """Model -> source -> scheduler -> file."""
    files: dict[str, dict[str, dict[str, Path]]] = {}
    for path in cells:
        files.setdefault(path.parts[-3], {}).setdefault(path.parts[-2], {})[path.stem] = path
    return files


def write_csvs(analyses: Path, origin: Provenance, out: Path) -> None:
    """The analyses as CSV for reading; the first column says on what was measured."""
    for name in ANALYSES:
        table: pd.DataFrame = read_table(analyses / f"{name}.parquet", SCHEMAS[name]).to_pandas()
        table.insert(0, "measured", origin.text)
        with atomic_path(out / f"{name}.csv") as part:
            table.to_csv(part, index=False, na_rep="undefined", lineterminator="\n", float_format="%.6g")

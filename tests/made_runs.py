"""A small run on disk: windows, calibration and, if asked for, cells."""

from pathlib import Path

import pyarrow as pa

from servestudy.calibration import calibrate_windows, read_lambda_ref
from servestudy.engine_model import EngineModel
from servestudy.simulation import simulate_shard
from servestudy.tables import write_table
from servestudy.windows.frozen import WINDOW_SCHEMA, FrozenWindow


def write_windows(windows: list[FrozenWindow], path: Path) -> None:
    rows = [
        {
            "source": window.source,
            "window_id": window.window_id,
            "window_number": window.number,
            "position": place,
            "source_row": place,
            "time_s": float(window.time_s[place]),
            "prompt_tokens": int(window.prompt_tokens[place]),
            "output_tokens": int(window.output_tokens[place]),
        }
        for window in windows
        for place in range(len(window.time_s))
    ]
    write_table(pa.Table.from_pylist(rows, WINDOW_SCHEMA), WINDOW_SCHEMA, path)


def first_requests(window: FrozenWindow, number: int) -> FrozenWindow:
    rows = window.time_s[:number], window.prompt_tokens[:number], window.output_tokens[:number]
    return FrozenWindow(window.source, window.window_id, window.number, *rows)


def write_run(folder: Path, windows: dict[str, list[FrozenWindow]], models: list[EngineModel]) -> None:
    """Windows of each source and their calibration in each model."""
    for source, of_source in windows.items():
        write_windows(of_source, folder / f"windows/{source}.parquet")
        for model in models:
            calibrate_windows(
                of_source, folder / f"calibration/{model.name}/{source}.parquet", model.name, model.calibrate
            )


def write_cells(folder: Path, windows: dict[str, list[FrozenWindow]], model: EngineModel, names: list[str]) -> None:
    """Cells of schedulers, as the workflow makes them, in a run that has calibration."""
    for source, of_source in windows.items():
        lambda_ref = read_lambda_ref(folder / f"calibration/{model.name}/{source}.parquet")
        for name in names:
            out = folder / f"cells/{model.name}/{source}/{name}.parquet"
            simulate_shard(of_source, lambda_ref, name, lambda name=name: model.scheduler(name), 2, model, out)

"""How long it takes, and how much memory, to freeze the windows of the Azure 2024 trace.

Generates a file of that trace's size and shape (27,303,999 rows, about 1.13 GB; no real rows), freezes its 40
windows in a fresh process and prints the wall and CPU time and the peak memory of that process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servestudy.progress import progress_meter

ROWS = 27_303_999
PUBLISHED_BYTES = 1_135_195_393
CHUNK_ROWS = 1_000_000
FIRST_US = 1_715_472_000_000_000  # 2024-05-12 00:00:00 UTC
WEEK_US = 7 * 86_400 * 1_000_000
LIMIT_S, LIMIT_MIB = 60, 1024


def generate(path: Path, rows: int) -> None:
    """Write `rows` rows with stamps that rise through one week, one in a thousand of them a whole second.

    The lines are those of servestudy.traces.synthesize.azure_lines, made by column: row by row takes minutes.
    """
    rng = np.random.default_rng(20240512)
    step_us = WEEK_US / rows
    last = FIRST_US
    with path.open("wb") as file, progress_meter(rows, f"generate {path.name}", "rows") as advance:
        file.write(b"TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for first in range(0, rows, CHUNK_ROWS):
            n = min(CHUNK_ROWS, rows - first)
            stamps = np.sort(FIRST_US + first * step_us + rng.random(n) * n * step_us).astype(np.int64)
            whole = rng.random(n) < 0.001
            stamps[whole] -= stamps[whole] % 1_000_000
            stamps = np.maximum(np.sort(stamps), last)  # a cut to the second may fall behind the last chunk
            last = stamps[-1]
            text = pa.array(stamps, pa.timestamp("us")).cast(pa.string())
            on_second = pa.array(stamps % 1_000_000 == 0)
            text = pc.if_else(on_second, pc.utf8_slice_codeunits(text, 0, 19), text)
            prompt = np.maximum(rng.lognormal(7.3, 1.1, n), 1).astype(np.int32)
            output = np.maximum(rng.lognormal(5.1, 1.0, n), 1).astype(np.int32)
            lines = pc.binary_join_element_wise(
                pc.binary_join_element_wise(text, "+00:00", ""),
                pa.array(prompt).cast(pa.string()),
                pc.binary_join_element_wise(pa.array(output).cast(pa.string()), "\n", ""),
                ",",
            )
            file.write(lines.buffers()[2])
            advance(n)


def freeze_once(path: Path, folder: Path) -> None:
    """What the measured process does."""
    from servestudy.traces.registry import Source
    from servestudy.windows.freeze import freeze

    source = Source(
        id="azure_llm_2024",
        title="generated",
        dataset="generated",
        format="azure",
        version="1",
        file=path.name,
        url=None,
        sha256=None,
        bytes=None,
        rows=None,
        skip_rows=200_000,
        sampling_seed=20_260_902,
        synthetic=True,
        licence="MIT",
        redistribution="generated",
        citation="generated",
    )
    windows = freeze(source, path, folder / "windows.parquet", folder / "index.csv", 10, 30, 0.0)
    print(f"{len(windows)} windows, the first starts at row {windows[0].start_row}")


def run_child(*arguments: object) -> tuple[float, float, float]:
    """Run one step in a process of its own; its wall s, CPU s and peak MiB.

    Both steps run so: a child's peak as the system counts it begins at the size of the process that forks it,
    so this one must stay small.
    """
    started = time.monotonic()
    child = subprocess.Popen([sys.executable, __file__, *map(str, arguments)])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{arguments[0]} failed")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(folder: Path, rows: int) -> int:
    """Generate, freeze, print the use of time and memory; exit status 1 if a limit is passed."""
    path = folder / "azure_2024_shape.csv"
    if not path.exists():
        run_child("--generate", path, rows)
    print(f"{path}: {path.stat().st_size} bytes (the published file: {PUBLISHED_BYTES})", flush=True)
    wall_s, cpu_s, peak_mib = run_child("--freeze", path, folder)
    print(
        f"wall {wall_s:.1f} s (limit {LIMIT_S}), CPU {cpu_s:.1f} s, peak memory {peak_mib:.0f} MiB (limit {LIMIT_MIB})"
    )
    return 0 if wall_s < LIMIT_S and peak_mib < LIMIT_MIB else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows to generate, {ROWS} by default")
    parser.add_argument(
        "--keep", action="store_true", help="keep what is written in the folder, and use it again next time"
    )
    parser.add_argument("--generate", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--freeze", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        generate(Path(options.generate[0]), int(options.generate[1]))
    elif options.freeze:
        freeze_once(*map(Path, options.freeze))
    elif options.folder and options.keep:
        options.folder.mkdir(parents=True, exist_ok=True)
        return measure(options.folder, options.rows)
    else:
        if options.folder:
            options.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="freeze_azure_2024_", dir=options.folder) as folder:
            return measure(Path(folder), options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

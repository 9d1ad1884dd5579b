"""Delete each figure and table of a complete run, run the command of its row in traceability.csv, compare the bytes.

    .venv/bin/python tools/rebuild_items.py [results/embedded] [part of a name ...]

It takes some seconds an item. A file that comes back otherwise, or not at all, is named, and the old one put back.
"""

import csv
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path


def rebuilt(files: list[Path], command: str) -> list[str]:
    """What is wrong with the files after they were deleted and made again."""
    before = {path: path.read_bytes() for path in files}
    for path in files:
        path.unlink()
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    wrong = [f"{command}\n{result.stdout}{result.stderr}"] if result.returncode else []
    for path, content in before.items():
        if not path.is_file():
            wrong.append(f"{path}: not made again by {command}")
        elif path.read_bytes() != content:
            wrong.append(f"{path}: other bytes by {command}")
        else:
            continue
        path.write_bytes(content)
    return wrong


def main(run: str = "results/embedded", *parts: str) -> int:
    """The exit status."""
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (Path(run) / "traceability.csv").open(newline="") as table:
        rows = [row for row in csv.DictReader(table) if all(part in row["item"] for part in parts)]
    files, problems = 0, []
    for number, ((kind, item), of_item) in enumerate(groupby(rows, key=lambda row: (row["kind"], row["item"]))):
        of_item = list(of_item)
        paths = [Path(row["file"]) for row in of_item]
        found = rebuilt(paths, of_item[number % len(of_item)]["command"])  # of a figure, now the SVG's, now the PDF's
        files += len(paths)
        problems += found
        print(f"{kind} {item}: {'; '.join(found) or 'same bytes'}", flush=True)
    print(f"{files} files, {len(problems)} problems")
    return bool(problems or not files)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""What a run's traceability table and HTML report say, and what Snakemake and the folders say of the same."""

import base64
import csv
import json
import re
import zipfile
from pathlib import Path

from servestudy.files import sha256_of

DATA = ("results/", "data/")
"""Where inputs of rules lie that are no code."""


def traced_rows(run: Path) -> list[dict[str, str]]:
    """The rows of traceability.csv in results/<run>."""
    with (run / "traceability.csv").open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def recorded(project: Path, path: str) -> tuple[str, set[str]]:
    """The rule that made a file and the data that this read, as Snakemake recorded them."""
    record = project / ".snakemake/metadata" / base64.b64encode(path.encode()).decode()
    made = json.loads(record.read_text())
    return made["rule"], {name for name in made["input"] if name.startswith(DATA)}


def untrue(project: Path, row: dict[str, str]) -> list[str]:
    """What a row says otherwise than Snakemake's record and the files."""
    rule, read = recorded(project, row["file"])
    inputs = dict(pair.rsplit("=", 1) for pair in row["inputs"].split())
    found = [] if rule == row["rule"] else [f"{row['file']}: {rule} made it"]
    if rule == "write_spotcheck_tables":  # one job for all of them; a row names what its own table is made of
        read = read & inputs.keys()
    if read != inputs.keys():
        found.append(f"{row['file']}: made of {sorted(read)}")
    found += [f"{row['file']}: {path} is other" for path in inputs if sha256_of(project / path) != inputs[path]]
    if not re.fullmatch(r"\d+\.\d", row["time_s"]):
        found.append(f"{row['file']}: no time")
    return found


def report_of(path: Path) -> dict[str, dict]:
    """What the report shows by path: label, category, caption, and whether the file is in it."""
    with zipfile.ZipFile(path) as archive:
        page = archive.read("report/report.html").decode("utf-8")
        files = {Path(name).name for name in archive.namelist()}
    results, categories = (
        json.loads(re.search(rf'<script id="{name}">\s+var {name} = (.*);\s+</script>', page)[1])
        for name in ("results", "categories")
    )
    return {
        shown: {
            "category": category,
            "labels": results[shown]["labels"],
            "caption": results[shown]["caption"],
            "held": Path(shown).name in files,
        }
        for category, parts in categories.items()
        for paths in parts.values()
        for shown in paths
    }

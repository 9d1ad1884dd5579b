"""README.md of a release: what it holds, what may be done with it, how to make it again."""

from collections.abc import Sequence

from servestudy.release.citation import Citation
from servestudy.release.tables import Described
from servestudy.traces.registry import Source


def readme(
    citation: Citation,
    run: str,
    title: str,
    options: str,
    tables: Sequence[Described],
    sources: Sequence[Source],
    held: set[str],
) -> str:
    """The text, in Markdown. `options`: those of Snakemake that the run was made with, each with a space before it."""
    listed = "\n".join(f"| `{table.path}` | {table.rows} | {table.text} |" for table in tables)
    traces = "\n".join(
        f"| {source.title} | {source.licence} | {'yes' if source.id in held else 'no'} | {source.citation} |"
        for source in sources
    )
    left_out = [source.title for source in sources if source.id not in held]
    without = (
        f"\nNo request of {'; '.join(left_out)} is here, windows cut from it included: its licence asks for more than\n"
        "attribution. The results on it are here. The run cuts the same windows again from the publisher's file;\n"
        "`content_sha256` in `data/window_index.parquet` tells that they are the same.\n"
        if left_out
        else ""
    )
    return f"""# Release of the run `{run}`: {title}

Data, figures and claims of one run of servestudy {citation.version}. {citation.abstract}

## What is here

| file | rows | what |
|---|---|---|
{listed}

* `data_dictionary.csv`: every column of these tables, with unit and meaning; the schema of each file says the same.
  Where a unit is empty, the value has none, or the meaning tells it. Undefined values are NaN, never left out silently.
* `figures/`, `tables/`: what the run draws and tabulates. `claims/`: each published claim beside the values of the run.
* `config.yaml`: the run's whole configuration. `manifest.json`: the sha256 of every file that the run made.
* `croissant.json` and `ro-crate-metadata.json`: this description for machines (Croissant 1.1, RO-Crate 1.3).
* `SHA256SUMS`: check this folder with `sha256sum -c SHA256SUMS`.

Each table is one file, sorted by its first columns. In Python: `pandas.read_parquet("data/cells.parquet")`.

## Do it again

1. Get servestudy {citation.version}, and install it with `make setup` (Python 3.11 or newer).
2. In its folder: `.venv/bin/snakemake --cores all{options}`.
3. Compare `results/{run}/manifest.json` with `manifest.json` of this folder: equal hashes, equal results.
4. `.venv/bin/snakemake release --cores all{options}` makes this folder again, byte for byte.

`config.yaml` has all that was configured, should an option above name a file that you lack.
A single figure or table, one's own scheduler, other traces: the README of servestudy.

## Traces and licences

What servestudy made is under the {citation.licence} licence (`LICENSE`). Requests of a trace are under the licence of
the trace: keep the attribution. `traces.csv` has versions, addresses, hashes and conditions.

| trace | licence | requests here | cite |
|---|---|---|---|
{traces}
{without}
## Cite

`CITATION.cff`, and the study whose results you use.
"""

"""What the notebooks use: a run's figures and tables, each with the command, the code and the data behind it.

    run = open_run()
    run.figure("portability/tau_heatmap")

The run is the default one, or that of the environment variable SERVESTUDY_RUN. Nothing here writes into its results.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from servestudy.errors import UserError
from servestudy.items import FIGURE, ORIGIN, TABLE, Item, item_of
from servestudy.model_names import MODELS
from servestudy.notebook_html import Shown, drawn, facts, note, saved_by, shown_rows
from servestudy.notebook_items import FigureItem, NotMade, TableItem, Wrong

if TYPE_CHECKING:
    import pandas as pd

    from servestudy.plotting.style import Context

__all__ = ["NotMade", "Run", "drawn", "facts", "open_run", "saved_by", "shown_rows"]

RUN_VARIABLE = "SERVESTUDY_RUN"
BASE = "config/config.yaml"
SPOTCHECK_ORIGIN = "spotcheck/windows.csv"
ROWS = 16  # of a table that are shown at first; more are in its file


def open_run(name: str | None = None, start: Path | str = ".") -> Run:
    """The run with that name, of the project that the folder `start` is in.

    Raises NotMade if it has no results.
    """
    root = find_root(Path(start))
    default = _run_of(root / BASE)
    run = Run(root, name or os.environ.get(RUN_VARIABLE) or default, default)
    if not run.results.is_dir():
        raise NotMade(f"results/{run.name} is not there: run `{run.command()}` in {root.name}/ first")
    run.origin  # noqa: B018  what is missing is told here: an error in the display of a value stops no cell
    return run


def find_root(start: Path) -> Path:
    """The project's root: `start` or the next folder above it with a Snakefile and config/. Raises Wrong."""
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / "Snakefile").is_file() and (folder / BASE).is_file():
            return folder
    raise Wrong(f"{start.resolve()} is not inside the project: start the notebook in its folder notebooks/")


def _run_of(config: Path) -> str | None:
    import yaml

    return yaml.safe_load(config.read_text(encoding="utf-8")).get("run")


class Run:
    """The files of a run. Names in paths are relative to results/<run>, except for those of figures and tables."""

    def __init__(self, root: Path, name: str, default: str):
        self.root, self.name = root, name
        self.results = root / "results" / name
        self._is_default = name == default

    def __repr__(self) -> str:
        return f"run {self.name}"

    def _repr_html_(self) -> str:
        return note(f"Run {self.name}: {self.origin.title}. Engine models: {', '.join(self.models)}.")

    def command(self, target: str = "") -> str:
        """The command that makes a file of the run, or all of it."""
        if self._is_default:
            return f"snakemake {target} --cores 2" if target else "make"
        files = [path for path in sorted((self.root / "config").glob("*.yaml")) if _run_of(path) == self.name]
        config = f"config/{files[0].name}" if files else "<its config file>"
        return " ".join(["snakemake", *filter(None, [target]), f"--cores 2 --configfile {config}"])

    @cached_property
    def models(self) -> list[str]:
        """The engine models that the run has."""
        return [model for model in MODELS if (self.results / "calibration" / model).is_dir()]

    @cached_property
    def origin(self) -> Context:
        """What the figures of the first study say about their data: trace set and engine model."""
        from servestudy.plotting.style import Context

        row = self.csv(f"tables/{ORIGIN}").iloc[0]
        return Context(row["trace_set"], row["model"])

    @cached_property
    def measured(self) -> Context:
        """What the figures of the spot-check say: the measurement that its tables name, and the model's shape."""
        from servestudy.plotting.style import Context
        from servestudy.spotcheck.registry import PROVENANCE, read_provenance

        table = self.existing(f"tables/{SPOTCHECK_ORIGIN}").relative_to(self.root).as_posix()
        text = self.csv(f"tables/{SPOTCHECK_ORIGIN}")["measured"].iloc[0]
        for folder, committed in ((self.results / "spotcheck/measured", False), (self.root / "data/spotcheck", True)):
            for record in sorted(folder.glob(f"*/{PROVENANCE}")):
                if (origin := read_provenance(record.parent, committed)).text == text:
                    return Context(text, origin.preset)
        raise NotMade(f"{table} shows a measurement that is no longer there: run `{self.command(table)}`")

    @cached_property
    def sources(self) -> list[str]:
        """The run's trace sources."""
        return self.csv(f"tables/{ORIGIN}")["source"].to_list()

    def path(self, file: str, **names: str) -> Path:
        """A file below results/<run>; `{source}` and the like in its name are replaced. Raises NotMade."""
        return self.existing(f"results/{self.name}/{file.format(**names)}")

    def data(self, file: str, **names: str) -> pd.DataFrame:
        """A Parquet or CSV file below results/<run>, whole. Raises NotMade."""
        path = self.path(file, **names)
        if path.suffix == ".csv":
            return self.csv(path.relative_to(self.root).as_posix())
        import pyarrow.parquet as pq

        return pq.read_table(path).to_pandas()

    def figure(self, name: str) -> FigureItem | Shown:
        """A figure; or a note, if the run lacks an engine model that it needs. Raises NotMade, Wrong."""
        return self._left_out(FIGURE, name) or FigureItem(self, _known(FIGURE, name)).rendered()

    def table(self, name: str, columns: str = "", rows: int = ROWS) -> TableItem | Shown:
        """The first rows of a table; all of its columns, or those that are named with blanks in between; or a note.

        Raises NotMade, Wrong.
        """
        item = _known(TABLE, name)
        return self._left_out(TABLE, name) or TableItem(self, item, tuple(columns.split()), rows).rendered()

    def _left_out(self, kind: str, name: str) -> Shown | None:
        missing = [model for model in _known(kind, name).models if model not in self.models]
        text = f"The run {self.name} has no {kind} {name}: it leaves out the engine model {', '.join(missing)}."
        return Shown(note(text)) if missing else None

    def existing(self, file: str) -> Path:
        """`file` is named as in the default run, below figures/, tables/ or results/<run>. Raises NotMade."""
        if not self._is_default and not file.startswith("results/"):
            file = f"results/{self.name}/{file}"
        path = self.root / file
        if not path.is_file():
            raise NotMade(f"{file} is not there: run `{self.command(file)}` in {self.root.name}/")
        return path

    def csv(self, file: str) -> pd.DataFrame:
        """A CSV file, named as for `existing`; undefined values are NaN."""
        import pandas as pd

        return pd.read_csv(self.existing(file), keep_default_na=False, na_values=["undefined"])


def _known(kind: str, name: str) -> Item:
    try:
        return item_of(kind, name)
    except UserError as error:
        raise Wrong(str(error)) from None

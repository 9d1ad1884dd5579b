"""A figure or a table as a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from servestudy.errors import UserError
from servestudy.items import Item
from servestudy.notebook_html import Shown, folded_source, folded_table, list_of, note, picture, sentence, table_of

if TYPE_CHECKING:
    import pandas as pd

    from servestudy.notebook import Run
    from servestudy.plotting.style import Context

HEAD_ROWS = 5  # of the data behind an item
TIERS_ORIGIN = "tiers/claims_of_tiers.csv"


class NotMade(UserError):
    """A file of the run is missing; the message says what makes it. Notebooks show it without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class Wrong(UserError):
    """The same for a mistake in the call."""

    _render_traceback_ = NotMade._render_traceback_


@dataclass(frozen=True, repr=False)
class MadeItem:
    """An item of a run: a figure or a table, the command that makes it, the code, and the data behind it."""

    run: Run
    item: Item

    def __repr__(self) -> str:
        return f"{self.item.kind} {self.item.name}"

    @cached_property
    def file(self) -> Path:
        return self.run.existing(f"{self.item.kind}s/{self.item.file}")

    @property
    def _shown_model(self) -> str:
        return self.run.origin.model

    def rendered(self) -> Self:
        """The same, with its HTML made: an error in that must stop the cell."""
        self.html  # noqa: B018
        return self

    def _repr_html_(self) -> str:
        return self.html

    @cached_property
    def html(self) -> str:
        """The item; then the command, the code and the data."""
        return "".join([self._shown(), *self._behind()])

    def _shown(self) -> str:
        raise NotImplementedError

    def files(self) -> dict[str, Path]:
        """The tables that it is made of, by name."""
        return {name: self.run.path(file) for name, file in self.item.tables(self._shown_model).items()}

    def _behind(self) -> Iterator[str]:
        """The command, the code and the data."""
        place = self.file.relative_to(self.run.root).as_posix()
        yield note(f"{sentence(self.item.text)} Made by", self.run.command(place))
        yield folded_source(self.item.module)
        for name, path in self.files().items():
            label = path.relative_to(self.run.root).as_posix()
            yield folded_table(label, path, self.item.reads[name], HEAD_ROWS)


class FigureItem(MadeItem):
    """A figure as the workflow drew it."""

    def _shown(self) -> str:
        return picture(self.image, self.item.text)

    @property
    def image(self) -> bytes:
        """The file."""
        return self.file.read_bytes()

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """What its module's function `draw(tables, context)` needs: the columns that it reads."""
        from servestudy.named_tables import read_named_tables

        return read_named_tables(f"figure {self.item.name}", self.files(), self.item.reads)

    @property
    def context(self) -> Context:
        """The same: what the figure says about its traces and its engine model."""
        from servestudy.plotting.style import Context

        study = self.item.name.partition("/")[0]
        if study == "spotcheck":
            return self.run.measured
        if study == "tiers":
            requests = self.run.csv(f"tables/{TIERS_ORIGIN}")["trace_set"].iloc[0]
            return Context(requests, " and ".join(dict.fromkeys(name.split("_tier_")[0] for name in self.item.reads)))
        return Context(self.run.origin.title, " and ".join(self.item.models)) if study == "audit" else self.run.origin


@dataclass(frozen=True, repr=False)
class TableItem(MadeItem):
    """A table as the workflow wrote it. `columns`: those that are shown; none: all."""

    columns: tuple[str, ...]
    rows: int

    def _shown(self) -> str:
        if unknown := [name for name in self.columns if name not in self.frame]:
            raise Wrong(f"{self.file.name}: no column {', '.join(unknown)}; it has {', '.join(self.frame)}")
        return table_of(self.frame, self.columns, self.rows, self.file.name)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All its rows and columns; undefined values are NaN."""
        return self.run.csv(f"tables/{self.item.file}")

    def say(self, column: str = "statement", **where: object) -> Shown:
        """The sentences of a column, in the rows that have these values."""
        frame = self.frame
        for name, value in where.items():
            frame = frame[frame[name] == value]
        return Shown(list_of(frame[column].drop_duplicates().to_list()))

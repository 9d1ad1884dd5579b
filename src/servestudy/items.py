"""What a run shows: every figure and table of all registries, with what it is made of.

An item is named by its path without suffix below the run's folder of figures or of tables: `portability/tau_heatmap`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servestudy.errors import UserError
from servestudy.model_names import models_read
from servestudy.plotting.registry import AUDIT_FIGURES, FIGURES, TIER_FIGURES
from servestudy.spotcheck.registry import ANALYSES as SPOTCHECK_TABLES
from servestudy.spotcheck.registry import FIGURES as SPOTCHECK_FIGURES
from servestudy.statistics.registry import WORKLOAD_ANALYSES
from servestudy.tabulation.registry import AUDIT_TABLES, CLAIMS, TABLES, TIER_TABLES, WINDOW_INDEX

FIGURE, TABLE = "figure", "table"
ORIGIN = "portability/sources.csv"
"""The table that says which traces and which engine model the figures of a run show."""
_FIGURES = {
    "portability": FIGURES,
    "audit": AUDIT_FIGURES,
    "tiers": TIER_FIGURES,
    "spotcheck": SPOTCHECK_FIGURES,
}
_TABLES = {"portability": TABLES, "audit": AUDIT_TABLES, "tiers": TIER_TABLES}


@dataclass(frozen=True)
class Item:
    """A figure or a table.

    `file` lies below the run's folder of figures or tables; `module` makes it. `reads` has the columns that it reads,
    by the name of the analysis; no columns: all. `models`: a run without one of these engine models has no such item.
    """

    kind: str
    name: str
    text: str
    module: str
    reads: Mapping[str, tuple[str, ...]]
    models: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return f"{self.name}.{'svg' if self.kind == FIGURE else 'csv'}"

    def tables(self, shown_model: str) -> dict[str, str]:
        """The files that it is made of, below results/<run>, by the name of the analysis.

        `shown_model` is the engine model that the figures of the first study show.
        """
        study = self.name.partition("/")[0]
        return {name: _FILES[study](name, shown_model) for name in self.reads}


def _of_study(name: str, shown_model: str) -> str:
    if name == WINDOW_INDEX:
        return "windows/index.csv"
    if name == CLAIMS:
        return "claims.csv"
    folder = "" if name in WORKLOAD_ANALYSES else f"{shown_model}/"
    return f"statistics/{folder}{name}.parquet"


def _of_audit(name: str, _: str) -> str:
    """Unless it is named, of the published model."""
    if name == CLAIMS:
        return "claims.csv"
    return f"statistics/{name if '/' in name else f'published/{name}'}.parquet"


def _of_tiers(name: str, _: str) -> str:
    if name == CLAIMS:
        return "tiers/claims.csv"
    model, _, analysis = name.partition("_tier_")
    return f"tiers/{model}/{analysis}.parquet"


def _of_spotcheck(name: str, _: str) -> str:
    return f"spotcheck/{name}.parquet"


_FILES = {"portability": _of_study, "audit": _of_audit, "tiers": _of_tiers, "spotcheck": _of_spotcheck}


def _all_items() -> dict[tuple[str, str], Item]:
    found = []
    for kind, studies in ((FIGURE, _FIGURES), (TABLE, _TABLES)):
        for study, registry in studies.items():
            for name, made in registry.items():
                models = tuple(models_read(made.reads)) if study == "audit" else ()
                found.append(Item(kind, f"{study}/{name}", made.text, made.module, made.reads, models))
    for name in SPOTCHECK_TABLES:
        text = f"{name.replace('_', ' ')} of the spot-check"
        found.append(Item(TABLE, f"spotcheck/{name}", text, "servestudy.spotcheck.analyse", {name: ()}))
    return {(item.kind, item.name): item for item in found}


ITEMS = _all_items()


def item_of(kind: str, name: str) -> Item:
    """Raises UserError that lists the names that there are."""
    if (kind, name) not in ITEMS:
        known = ", ".join(other for this, other in ITEMS if this == kind)
        raise UserError(f"{kind} {name!r} is unknown; known are {known}")
    return ITEMS[kind, name]


def module_file(item: Item) -> Path:
    """The source text of the module that makes it."""
    from servestudy.code_files import PACKAGE

    return (PACKAGE.parent / item.module.replace(".", "/")).with_suffix(".py")

"""The analyses by name. Each reads window values and returns one table."""

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Analysis:
    """`module` has the table's schema as SCHEMA and the function `analyse(values) -> data frame`."""

    module: str
    text: str
    primary_only: bool = True  # the study's statistics leave out the two style approximations


ANALYSES = {
    "ranking": Analysis(
        "servestudy.statistics.ranking",
        "mean of each metric by source, region and scheduler",
        primary_only=False,
    ),
    "agreement": Analysis(
        "servestudy.statistics.agreement",
        "tau-b, rho and top-k overlap of the rankings of each pair of sources",
    ),
}


def run_analysis(name: str, cells: list, schedulers: list[str] | None, window_order, out) -> None:
    """Load window values, analyse them and write the table.

    Raises UserError as `load_values` does. `schedulers` None: all that have values.
    """
    from servestudy.statistics.window_values import load_values
    from servestudy.tables import write_frame

    module = import_module(ANALYSES[name].module)
    write_frame(module.analyse(load_values(cells, schedulers, window_order)), module.SCHEMA, out)

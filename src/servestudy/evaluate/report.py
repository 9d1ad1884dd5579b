"""The portability report card as blocks of text and tables, which `terminal` and `html` write."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from servestudy.evaluate.comparison import COMPARED_METRICS, Comparison
from servestudy.evaluate.evaluation import Evaluation
from servestudy.evaluate.findings import KINDS, NOTES
from servestudy.metrics import METRICS, PRIMARY_METRIC
from servestudy.statistics.reversal_rules import SUPPORTED

SHORT = {PRIMARY_METRIC: "ANWG"}


@dataclass(frozen=True)
class Cell:
    """Text of a table's cell; `shade` from 0 (worst) to 1 (best) colours it, NaN does not."""

    text: str
    shade: float = np.nan


@dataclass(frozen=True)
class Table:
    title: str
    head: list[str]
    rows: list[list[Cell]]
    note: str = ""
    detail: bool = False
    """For the HTML file only."""


@dataclass(frozen=True)
class Section:
    title: str
    facts: list[str]
    problems: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def sections(evaluations: list[Evaluation]) -> Iterator[Section]:
    """One section an engine model."""
    for evaluation in evaluations:
        tables = list(_tables(evaluation.comparison)) if evaluation.comparison else []
        yield Section(f"{evaluation.model} model", _facts(evaluation), _findings(evaluation, notes=False), tables)


def _facts(evaluation: Evaluation) -> list[str]:
    ended = evaluation.cells.num_rows
    facts = [f"{ended} of {evaluation.n_cells} cells came to an end"]
    if evaluation.not_run:
        facts.append(f"{evaluation.not_run} cells were not begun, as others did not come to an end")
    facts.append(
        f"in {evaluation.thorough_cells} cells compared: a second run, a run of the same object, a run step by step, "
        "a run with other true lengths"
    )
    times = evaluation.decision_us
    if times["decisions"]:
        facts.append(
            f"time of a decision: median {times['median']:.1f} us, 99th percentile {times['p99']:.1f} us "
            f"({times['decisions']} decisions, on this machine)"
        )
    comparison = evaluation.comparison
    if comparison:
        windows = ", ".join(f"{source} {count}" for source, count in comparison.n_windows.items())
        facts.append(f"panel: {len(comparison.schedulers) - 1} schedulers; windows: {windows}")
        facts += _headline(comparison)
    return facts + _findings(evaluation, notes=True)


def _headline(comparison: Comparison) -> list[str]:
    primary = comparison.ranks[comparison.ranks["metric"] == PRIMARY_METRIC].dropna(subset="rank")
    if primary.empty:
        return []
    best, worst = (primary.loc[primary["rank"].agg(pick)] for pick in ("idxmin", "idxmax"))
    own = comparison.reversals[comparison.reversals["metric"] == PRIMARY_METRIC]
    supported = int((own["reversal_class"] == SUPPORTED).sum())
    return [
        f"rank by ANWG: {_rank(best)} at best ({best['source']}, {best['region']}), "
        f"{_rank(worst)} at worst ({worst['source']}, {worst['region']}), of {int(best['n_schedulers'])}",
        f"reversals by ANWG with another scheduler between two sources: {supported} supported, "
        f"{int(own['supported_after_fdr'].sum())} after Benjamini-Hochberg",
    ]


def _findings(evaluation: Evaluation, notes: bool) -> list[str]:
    """One line a kind of finding: the mistakes, or the notes."""
    return [
        f"{KINDS[found.finding.kind]}: {found.cell}, {found.finding.where}: {found.finding.text} "
        f"[{found.finding.kind}, in {found.cells} cell{'s' if found.cells > 1 else ''}]"
        for found in evaluation.findings
        if (found.finding.kind in NOTES) == notes
    ]


def _tables(comparison: Comparison) -> Iterator[Table]:
    for metric in comparison.ranks["metric"].unique():
        rows = comparison.ranks[comparison.ranks["metric"] == metric]
        yield Table(
            f"Rank by {SHORT.get(metric, metric)}",
            ["source", *dict.fromkeys(rows["region"])],
            [
                [Cell(str(source)), *map(_rank_cell, _records(part))]
                for source, part in rows.groupby("source", sort=False)
            ],
            f"of {int(rows['n_schedulers'].max())}, 1 is best; [95 % interval over windows]; the mean of the metric",
            detail=metric != PRIMARY_METRIC,
        )
    for metric in comparison.tau["metric"].unique():
        rows = comparison.tau[comparison.tau["metric"] == metric]
        yield Table(
            f"Agreement of sources by {SHORT.get(metric, metric)}: tau of the panel without -> with it",
            ["sources", *dict.fromkeys(rows["region"])],
            [
                [Cell(f"{x}, {y}"), *map(_tau_cell, _records(part))]
                for (x, y), part in rows.groupby(["source_x", "source_y"], sort=False)
            ],
            "Kendall's tau-b; [95 % interval of the change]",
            detail=metric != PRIMARY_METRIC,
        )
    for metric in COMPARED_METRICS:
        yield _reversals(comparison, metric)
    for metric in COMPARED_METRICS:
        yield _duels(comparison, metric)


def _records(part: pd.DataFrame) -> list[dict]:
    return part.to_dict("records")


def _rank(row: pd.Series | dict) -> str:
    return "undefined" if np.isnan(row["rank"]) else f"{row['rank']:g}"


def _rank_cell(row: dict) -> Cell:
    if np.isnan(row["rank"]):
        return Cell("undefined")
    shade = 1 - (row["rank"] - 1) / max(row["n_schedulers"] - 1, 1)
    return Cell(f"{row['rank']:g} [{row['rank_low']:g}, {row['rank_high']:g}] {row['mean']:.4g}", shade)


def _tau_cell(row: dict) -> Cell:
    values = [_number(row[name]) for name in ("tau_without", "tau_with", "change_low", "change_high")]
    return Cell("{} -> {} [{}, {}]".format(*values))


def _number(value: float) -> str:
    return "undef." if np.isnan(value) else f"{value:.2f}"


def _reversals(comparison: Comparison, metric: str) -> Table:
    rows = comparison.reversals[comparison.reversals["metric"] == metric]
    rows = rows[rows["reversal_class"] == SUPPORTED]
    cells = []
    for row in _records(rows):
        flip = 1 if row["scheduler_a"] == comparison.name else -1
        other = row["scheduler_b"] if flip == 1 else row["scheduler_a"]
        texts = [other, row["region"], row["source_x"], f"{flip * row['difference_x']:+.4g}"]
        texts += [row["source_y"], f"{flip * row['difference_y']:+.4g}"]
        cells.append([*map(Cell, texts), Cell("yes" if row["supported_after_fdr"] else "no")])
    return Table(
        f"Reversals by {SHORT.get(metric, metric)}",
        ["against", "region", "source", "difference", "source", "difference", "after BH"],
        cells,
        "supported practical reversals: its order with the other scheduler turns round, by more than 10 % and beyond "
        "the 95 % intervals in both sources; BH: Benjamini-Hochberg at 0.05 over the panel"
        if cells
        else "none",
        detail=metric != PRIMARY_METRIC,
    )


def _duels(comparison: Comparison, metric: str) -> Table:
    rows = comparison.duels[comparison.duels["metric"] == metric]
    conditions = list(dict.fromkeys(zip(rows["source"], rows["region"], strict=True)))
    sources = list(dict.fromkeys(rows["source"]))
    cells = []
    for opponent, part in rows.groupby("opponent", sort=False):
        results = part["result"].to_numpy()
        won, lost = int((results > 0).sum()), int((results < 0).sum())
        line = [Cell(str(opponent)), Cell(str(won)), Cell(str(lost))]
        for source in sources:
            marks = part.loc[part["source"] == source, "result"]
            shade = float(marks.mean() + 1) / 2
            line.append(Cell("".join("-=+"[result + 1] for result in marks), shade))
        cells.append(line)
    regions = ", ".join(dict.fromkeys(region for _, region in conditions))
    return Table(
        f"Wins and losses by {SHORT.get(metric, metric)}",
        ["against", "won", "lost", *sources],
        cells,
        f"+ better, - worse, = neither, by the 95 % interval of the paired difference; in each source: {regions}",
        detail=metric != PRIMARY_METRIC,
    )


def metric_definitions() -> list[str]:
    return [f"{metric.name} [{metric.unit}]: {metric.definition}" for metric in METRICS]

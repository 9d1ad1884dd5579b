"""The claims of a study against a run: values beside values, and a verdict that is computed, never typed.

claims/<study>.yaml holds the claims, `servestudy.claim_tests` what computes their values; docs/CLAIMS.md explains both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any

import pandas as pd

from servestudy.claim_tests.evidence import (
    FIFO_CELLS,
    SPOTCHECK_TABLES,
    TIER_TABLES,
    Evidence,
    Finding,
    NotEvaluatedError,
    UndefinedError,
    Value,
)
from servestudy.claim_tests.registry import TESTS
from servestudy.config import load_yaml
from servestudy.errors import UserError
from servestudy.files import atomic_path
from servestudy.schemas import load_schema, schema_problems, unknown
from servestudy.statistics.registry import ANALYSES, VARIANT_ANALYSES, WORKLOAD_ANALYSES

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
ONLY_PUBLISHED_MODEL = "reproduced only under the published model"
NEEDS_TRACES = "needs the paper's traces"
CONTRADICTED = "contradicted by the study's own data"
NOT_EVALUATED = "not evaluated"
NOT_RUN = "not run"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, ONLY_PUBLISHED_MODEL, NEEDS_TRACES, CONTRADICTED, NOT_EVALUATED)

COLUMNS = (
    "claim",
    "trace_set",
    "statement",
    "source",
    "reported",
    "reproduced",
    "serving",
    "verdict",
    "direction",
    "direction_holds",
    "serving_direction_holds",
    "evidence",
    "note",
)
TABLES = (*ANALYSES, *VARIANT_ANALYSES, *WORKLOAD_ANALYSES, FIFO_CELLS, *TIER_TABLES, *SPOTCHECK_TABLES)
"""What a claim may name as evidence."""
CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """What a claim's test gave on the tables of one engine model. `finding` is None if it gave nothing, see `why`."""

    finding: Finding | None
    evaluated: bool
    why: str = ""


def load_claims(path: Path | str) -> dict[str, Any]:
    """A file of claims, checked; raises UserError that lists every problem with the claim, key and what is allowed."""
    study = load_yaml(path)
    problems = schema_problems(str(path), study, load_schema("claims", CHECKOUT))
    if not problems:
        for name, claim in study["claims"].items():
            place = f"{path}: claims.{name}"
            if claim["test"]["function"] not in TESTS:
                problems.append(f"{place}.test.function: {unknown('test', claim['test']['function'], TESTS)}")
            problems += [
                f"{place}.evidence: {unknown('table', table, TABLES)}"
                for table in claim["evidence"]
                if table not in TABLES
            ]
    if problems:
        raise UserError("\n".join(problems))
    return study


def tables_of_run(run_dir: Path | str, model: str) -> dict[str, list[Path]]:
    """The files of a run that claims may rest on, by name of the table; only those that are there."""
    run_dir = Path(run_dir)
    files = {name: [run_dir / f"statistics/{model}/{name}.parquet"] for name in (*ANALYSES, *VARIANT_ANALYSES)}
    files |= {name: [run_dir / f"statistics/{name}.parquet"] for name in WORKLOAD_ANALYSES}
    found = {name: paths for name, paths in files.items() if paths[0].is_file()}
    if "ranking" in found:  # which sources are the run's: cells of others may lie about
        sources = sorted(pd.read_parquet(found["ranking"][0], columns=["source"])["source"].unique())
        cells = [run_dir / f"cells/{model}/{source}/fifo.parquet" for source in sources]
        if all(path.is_file() for path in cells):
            found[FIFO_CELLS] = cells
    for name in TIER_TABLES:  # of results/<run>/tiers, the folder that the claims of that study are evaluated on
        path = run_dir / model / f"{name.removeprefix('tier_')}.parquet"
        if path.is_file():
            found[name] = [path]
    for name in SPOTCHECK_TABLES:
        path = run_dir / "spotcheck" / f"{name.removeprefix('spotcheck_')}.parquet"
        if path.is_file():
            found[name] = [path]
    return found


def tables_by_name(files: Iterable[tuple[str, Path]]) -> dict[str, list[Path]]:
    """Pairs of name and file as `tables_of_run` gives them; raises UserError for a name that is no table's."""
    tables: dict[str, list[Path]] = {}
    for name, path in files:
        if name not in TABLES:
            raise UserError(f"--tables: {unknown('table', name, TABLES)}")
        tables.setdefault(name, []).append(path)
    return tables


def on_the_studys_traces(files: Mapping[str, list[Path]], traces: Mapping[str, Any] | None) -> bool:
    """Whether a run has the study's sources, with as many windows of each, and no others; False without a ranking,
    or for a study without traces.
    """
    if traces is None or "ranking" not in files:
        return False
    ranking = pd.read_parquet(files["ranking"][0])
    windows = ranking["windows_defined"] + ranking["windows_undefined"]
    return set(ranking["source"]) == set(traces["sources"]) and set(windows) == {traces["windows_per_source"]}


def evaluate(claim: Mapping[str, Any], files: Mapping[str, list[Path]], model: str = "published") -> Outcome:
    """Run a claim's test on the tables that it names, which are of one engine model."""
    missing = [name for name in claim["evidence"] if name not in files]
    if missing:
        return Outcome(None, False, f"this run has no table {', '.join(missing)}")
    test = TESTS[claim["test"]["function"]]
    try:
        evidence = Evidence({name: files[name] for name in claim["evidence"]}, model)
        return Outcome(test(evidence, **claim["test"].get("parameters", {})), True)
    except UndefinedError as error:
        return Outcome(None, True, str(error))
    except NotEvaluatedError as error:
        return Outcome(None, False, str(error))


def differences(expected: Mapping[str, Value], found: Mapping[str, Value], tolerance: float) -> list[str]:
    """Names of expected values that are not there or differ by more than the tolerance; texts must be equal."""
    return [name for name, value in expected.items() if not _near(value, found.get(name), tolerance)]


def contradictions(claim: Mapping[str, Any]) -> list[str]:
    """Names of reported values for which other published data of the study say something else."""
    data = claim.get("published_data", {}).get("values", {})
    both = {name: value for name, value in claim["reported"].items() if name in data}
    return differences(both, data, claim["tolerance"])


def judge(claim: Mapping[str, Any], published: Outcome, serving: Outcome | None, studys_traces: bool) -> str:
    """The verdict. `serving` None: that model has not been run."""
    if contradictions(claim):
        return CONTRADICTED
    if not published.evaluated:
        return NOT_EVALUATED
    if claim["traces"] == "other" or (claim["traces"] == "paper" and not studys_traces):
        return NEEDS_TRACES
    if published.finding is None or differences(claim["reported"], published.finding.values, claim["tolerance"]):
        return NOT_REPRODUCED
    if serving is not None and serving.finding is not None and serving.finding.holds is False:
        return ONLY_PUBLISHED_MODEL
    return REPRODUCED


def evaluate_claims(
    study: Mapping[str, Any],
    published: Mapping[str, list[Path]],
    serving: Mapping[str, list[Path]] | None,
    trace_set: str,
) -> pd.DataFrame:
    """One row of COLUMNS for each claim, in the order of the file. `serving` None: that model has not been run."""
    studys_traces = on_the_studys_traces(published, study.get("traces"))
    rows = []
    for name, claim in study["claims"].items():
        ours = evaluate(claim, published)
        other = evaluate(claim, serving, "serving") if serving is not None else None
        rows.append(
            {
                "claim": name,
                "trace_set": trace_set,
                "statement": claim["statement"],
                "source": claim["source"],
                "reported": _text(claim["reported"]),
                "reproduced": _found(ours),
                "serving": _found(other) if other else NOT_RUN,
                "verdict": judge(claim, ours, other, studys_traces),
                "direction": claim["direction"],
                "direction_holds": _holds(ours),
                "serving_direction_holds": _holds(other) if other else NOT_RUN,
                "evidence": ", ".join(_evidence_files(claim, published)),
                "note": "; ".join(filter(None, [_note(claim, ours, studys_traces), _serving_note(ours, other)])),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def write_claims(
    path: Path | str, models: Mapping[str, Mapping[str, list[Path]]], trace_set: str, out: Path | str
) -> pd.DataFrame:
    """Evaluate a file of claims on the tables of each model (`published`, perhaps `serving`) and write the CSV."""
    table = evaluate_claims(load_claims(path), models.get("published", {}), models.get("serving"), trace_set)
    with atomic_path(out) as part:
        table.to_csv(part, index=False, lineterminator="\n")
    return table


def _near(expected: Value, found: Value | None, tolerance: float) -> bool:
    if isinstance(expected, Number) and isinstance(found, Number):
        return abs(expected - found) <= tolerance
    return expected == found


def _text(values: Mapping[str, Value]) -> str:
    return "; ".join(
        f"{name} = {value:.10g}" if isinstance(value, float) else f"{name} = {value}" for name, value in values.items()
    )


def _found(outcome: Outcome) -> str:
    if outcome.finding is not None:
        return _text(outcome.finding.values)
    return "undefined" if outcome.evaluated else NOT_EVALUATED


def _holds(outcome: Outcome) -> str:
    if not outcome.evaluated:
        return NOT_EVALUATED
    holds = outcome.finding.holds if outcome.finding is not None else None
    return "undefined" if holds is None else "yes" if holds else "no"


def _evidence_files(claim: Mapping[str, Any], files: Mapping[str, list[Path]]) -> list[str]:
    """The files of the tables that a claim names, or its kind of evidence where no table decides it."""
    found = [path.as_posix() for name in claim["evidence"] for path in files.get(name, [])]
    missing = [f"missing: {name}" for name in claim["evidence"] if name not in files]
    return [*found, *missing] or [f"test {claim['test']['function']}"]


def _note(claim: Mapping[str, Any], outcome: Outcome, studys_traces: bool) -> str:
    notes = [outcome.why or outcome.finding.note]
    against = contradictions(claim)
    if against:
        data = claim["published_data"]
        reported, other = (
            _text({name: values[name] for name in against}) for values in (claim["reported"], data["values"])
        )
        notes.append(f"the study contradicts itself: {reported} in the statement, {other} in {data['source']}")
    expected = claim["traces"] == "none" or (claim["traces"] == "paper" and studys_traces)
    if expected and against and outcome.finding is not None:
        near_text = not differences(claim["reported"], outcome.finding.values, claim["tolerance"])
        near_data = not differences(claim["published_data"]["values"], outcome.finding.values, claim["tolerance"])
        side = "the statement" if near_text else "the study's data" if near_data else "neither"
        notes.append(f"this run agrees with {side}")
    return "; ".join(filter(None, notes))


def _serving_note(published: Outcome, serving: Outcome | None) -> str:
    """Why there is no value under the serving model, unless it is for the reason that is given already."""
    if serving is None or serving.finding is not None or serving.why == published.why:
        return ""
    return f"serving model: {serving.why}"

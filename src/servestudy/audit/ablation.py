"""The cells of one source again with one defect of the published model corrected: everything else equal.

Only the schedulers that a switch can affect run again; the cells of the others are the run's own. Load factors are the
run's own as well, so that an arm differs from the run in its one rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from servestudy.audit.arms import Switch
from servestudy.audit.defects import SWITCHES
from servestudy.audit.switches import arm_of, rules_of
from servestudy.errors import UserError
from servestudy.progress import progress
from servestudy.published_model import PublishedModel
from servestudy.schedulers.registry import primary_schedulers
from servestudy.simulation import CELL_SCHEMA, require_calibration, simulate_window
from servestudy.tables import column, read_table, write_table
from servestudy.windows.frozen import FrozenWindow

AUDIT_SCHEMA = pa.schema(
    [
        column("switch", pa.string(), "id of the defect"),
        column("arm", pa.string(), "how it was switched"),
        *CELL_SCHEMA,
    ]
)
DEFAULT_REGIONS = ("KNEE", "HIGH_PRESSURE")


def affected_schedulers(switch: Switch, schedulers: Sequence[str]) -> list[str]:
    """Who runs again: those of the run that the switch names, or, if it names none, those that are ranked."""
    again = primary_schedulers() if switch.affects is None else switch.affects
    return [name for name in schedulers if name in again]


def simulate_ablation(
    switch_id: str,
    arms: Sequence[str],
    windows: Sequence[FrozenWindow],
    lambda_ref: Mapping[str, float],
    cells: Sequence[Path | str],
    schedulers: Sequence[str],
    regions: Sequence[str],
    run_rules: Mapping[str, str],
    out: Path | str,
) -> None:
    """Simulate a source under each arm of a switch and write the cells (AUDIT_SCHEMA), one repetition each.

    `lambda_ref` is by window id; `cells` are the run's own cells of the source, which only a switch of unfinished cells
    reads; `run_rules` are the arms that the run itself has. Raises UserError for an unknown id or arm, for the arm that
    the run has, or if a window has no calibration.
    """
    require_calibration(list(windows), dict(lambda_ref))
    of_run = run_rules.get(switch_id, "published")
    for arm in arms:
        arm_of(switch_id, arm)
        if arm == of_run:
            raise UserError(f"audit.ablations.{switch_id}: found {arm}, which the run itself has; leave it out")
    switch = SWITCHES[switch_id]
    if switch.unfinished_only and not cells:
        raise UserError(f"{switch_id} changes only cells with unfinished requests: --cells must give the run's own")
    finished = _finished(cells) if switch.unfinished_only else {}
    rows: list[dict] = []
    for arm in arms:
        model = PublishedModel(rules_of({**run_rules, switch_id: arm}))
        names = affected_schedulers(switch, schedulers)
        for window in progress(windows, len(windows), f"{switch_id}={arm}, windows"):
            for name in names:
                for row in _window_rows(window, lambda_ref[window.window_id], name, regions, model, finished):
                    rows.append({"switch": switch_id, "arm": arm, **row})
    write_table(pa.Table.from_pylist(rows, AUDIT_SCHEMA), AUDIT_SCHEMA, out)


def _window_rows(
    window: FrozenWindow,
    lambda_ref: float,
    name: str,
    regions: Sequence[str],
    model: PublishedModel,
    finished: Mapping[tuple[str, str, str], dict],
) -> Iterator[dict]:
    """Rows of CELL_SCHEMA of one window and scheduler; finished cells as they are."""
    done = [region for region in regions if (window.window_id, region, name) in finished]
    yield from (finished[window.window_id, region, name] for region in done)
    again = [region for region in regions if region not in done]
    yield from simulate_window(window, lambda_ref, name, partial(model.scheduler, name), 1, model, again)


def _finished(cells: Sequence[Path | str]) -> dict[tuple[str, str, str], dict]:
    """The run's own cells in which every request completed, by window, region and scheduler."""
    rows = [row for path in cells for row in read_table(path, CELL_SCHEMA).to_pylist()]
    return {
        (row["window_id"], row["region"], row["scheduler"]): row
        for row in rows
        if row["completion_fraction"] == 1 and row["repetition"] == 0
    }

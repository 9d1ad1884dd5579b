"""What becomes of the run's supported reversals under another SLO multiplier.

Source: the published study's extension. A reversal is looked up by region, source pair and scheduler pair, and its
class under the other multiplier decides: supported PERSISTS; no sign change DISAPPEARS; a sign change within the margin
or with a wide interval BECOMES_UNSUPPORTED; undefined is UNDEFINED. Over all of these, another sign of the difference
in source x is a DIRECTION_CHANGE; 0 is another sign than that of any reversal, a missing difference has none. The own
multiplier of the study stands in the table too, where all persist by definition.

The study promised Benjamini-Hochberg for each multiplier and region, and never did it; `outcome_after_fdr` has it, over
all pairs that are tested at that multiplier and region, and does not let a reversal persist that it rejects.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import reversals as reversals_analysis
from servestudy.statistics.reversal_rules import MICROSCOPIC, STABLE, SUPPORTED, UNDEFINED, WIDE
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column
from servestudy.workload import SLACK_MULTIPLIER

PERSISTS, DISAPPEARS, UNSUPPORTED = "PERSISTS", "DISAPPEARS", "BECOMES_UNSUPPORTED"
OUTCOMES = {
    SUPPORTED: PERSISTS,
    STABLE: DISAPPEARS,
    MICROSCOPIC: UNSUPPORTED,
    WIDE: UNSUPPORTED,
    UNDEFINED: "UNDEFINED",
}
DIRECTION_CHANGE = "DIRECTION_CHANGE"

KEYS = ["rule", "region", "source_x", "source_y", "scheduler_a", "scheduler_b"]
COMPARED = ["difference_x", "difference_y", "margin_x", "margin_y"]
TESTED = ["p", "p_adjusted"]

SCHEMA = pa.schema(
    [
        column("rule", pa.string(), "rule of the reversal: published, or oriented"),
        column("multiplier", pa.int32(), "service times between arrival and deadline; 20 is the run itself"),
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        column("scheduler_a", pa.string(), "first scheduler of the pair, by name"),
        column("scheduler_b", pa.string(), "second scheduler"),
        column("outcome", pa.string(), "what became of the reversal, by the study's rule"),
        column("outcome_after_fdr", pa.string(), "the same if Benjamini-Hochberg must leave it standing to persist"),
        column("reversal_class", pa.string(), "class at this multiplier"),
        *(
            column(f"{name}{suffix}", pa.float64(), f"{what} in source {name[-1]} at {where}")
            for suffix, where in (("_reference", "multiplier 20"), ("", "this multiplier"))
            for name in COMPARED
            for what in ("mean a less mean b" if name.startswith("difference") else "|difference| over |the loser|",)
        ),
        column("p", pa.float64(), "p at this multiplier; NaN: not tested"),
        column("p_adjusted", pa.float64(), "Benjamini-Hochberg over all pairs tested at this rule, multiplier, region"),
    ]
)


def analyse(reversals: pd.DataFrame, variants: dict[int, WindowValues]) -> pd.DataFrame:
    """Rows of SCHEMA: rule, multiplier, then the order of `reversals`, the table of the analysis of that name.

    A reversal in a region that a variant lacks has no row there.
    """
    own = reversals[reversals["metric"] == PRIMARY_METRIC]
    supported = own[own["reversal_class"] == SUPPORTED]
    for multiplier, values in variants.items():
        for known, ends in (
            (values.sources, ["source_x", "source_y"]),
            (values.schedulers, ["scheduler_a", "scheduler_b"]),
        ):
            missing = sorted(set(supported[ends].to_numpy().ravel()) - set(known))
            if missing:
                raise UserError(
                    f"variant {multiplier}: no values of {missing[0]}, which has a reversal; give its cells too"
                )
    at = {multiplier: reversals_analysis.analyse(values) for multiplier, values in variants.items()}
    regions = {region for values in variants.values() for region in values.regions}
    at[SLACK_MULTIPLIER] = own[own["region"].isin(regions)]
    frames = [_outcomes(supported, table).assign(multiplier=multiplier) for multiplier, table in sorted(at.items())]
    table = pd.concat(frames, ignore_index=True)
    order = {rule: place for place, rule in enumerate(dict.fromkeys(reversals["rule"]))}
    return table.sort_values("rule", key=lambda rules: rules.map(order), kind="stable")[SCHEMA.names]


def _outcomes(supported: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA without the multiplier. `table` has the reversals at one multiplier."""
    columns = [*KEYS, "reversal_class", "supported_after_fdr", *COMPARED, *TESTED]
    merged = supported[[*KEYS, *COMPARED]].merge(table[columns], on=KEYS, suffixes=("_reference", ""), validate="1:1")
    turned = np.sign(merged["difference_x"]) != np.sign(merged["difference_x_reference"])
    turned &= merged["difference_x"].notna()
    outcome = merged["reversal_class"].map(OUTCOMES)
    after_fdr = outcome.mask((outcome == PERSISTS) & ~merged["supported_after_fdr"].astype(bool), UNSUPPORTED)
    return merged.assign(
        outcome=outcome.mask(turned, DIRECTION_CHANGE),
        outcome_after_fdr=after_fdr.mask(turned, DIRECTION_CHANGE),
    )

"""Every comparison behind the robustness families that leave something out, with intervals, for the primary metric.

Source: the published study, which drew these intervals last from its one generator and published only means of tau-b.
"""

import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.agreement_intervals import AGREEMENT_COLUMNS, compare_with_intervals
from servestudy.statistics.published_order import before_robustness
from servestudy.statistics.robustness_variants import variants
from servestudy.statistics.temporal_splits import temporal_splits
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("family", pa.string(), "robustness family of the study"),
        column("variant", pa.string(), "the source or the mechanism family left out, or what is kept"),
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        *AGREEMENT_COLUMNS,
    ]
)


def analyse(values: WindowValues, window_index: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rows of SCHEMA in the study's order.

    The intervals have the study's digits only with the window index, as its temporal splits draw first. Raises
    UserError as `temporal.analyse`.
    """
    rng = before_robustness(values, temporal_splits(values, window_index))
    rows = []
    for variant in variants(values):
        kept = variant.values
        for region, source_x, source_y in variant.conditions():
            x, y = (kept.of(source, region, PRIMARY_METRIC) for source in (source_x, source_y))
            rows.append(
                {
                    "family": variant.family,
                    "variant": variant.variant,
                    "region": region,
                    "source_x": source_x,
                    "source_y": source_y,
                    **compare_with_intervals(x, y, kept.schedulers, PRIMARY_METRIC, rng),
                }
            )
    return pd.DataFrame(rows, columns=SCHEMA.names)

"""Ranking of the schedulers in each condition: source, region and metric.

Source: the published study's ranking rule. A scheduler's value is the mean over the windows in which the metric is
defined, in the order of the windows. No rank averaging, no normalisation, no tolerance for ties.
"""

import pandas as pd
import pyarrow as pa

from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("metric", pa.string(), "name of the metric"),
        column("scheduler", pa.string(), "name of the scheduler"),
        column("mean", pa.float64(), "mean over the windows where the metric is defined; NaN if there is none"),
        column("windows_defined", pa.int32(), "windows where the metric is defined"),
        column("windows_undefined", pa.int32(), "windows of the condition where it is not: left out, never imputed"),
    ]
)


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA."""
    rows = []
    for source in values.sources:
        for region in values.regions:
            for metric in values.metrics:
                for scheduler, row in zip(values.schedulers, values.of(source, region, metric), strict=True):
                    undefined = int(pd.isna(row).sum())
                    mean = mean_of_defined(row)
                    rows.append((source, region, metric, scheduler, mean, len(row) - undefined, undefined))
    return pd.DataFrame(rows, columns=SCHEMA.names)

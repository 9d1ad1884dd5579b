"""ANWG of one scheduler less that of another, by source and region, with intervals over resampled windows.

The pair is that of the published study's largest reversal. Measured on a real engine, it did not show; so its sign is
asked of every engine model. Intervals are paired and drawn as those of the reversals, each from a fresh generator: they
depend on no other condition of the run.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.published_order import generator
from servestudy.statistics.reversal_rules import paired_differences
from servestudy.statistics.reversals import side_test
from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column

PAIR = ("slai_faithful", "vllm_faithful")

SCHEMA = pa.schema(
    [
        column("source", pa.string(), "id of the source"),
        column("region", pa.string(), "load region"),
        column("n_windows", pa.int32(), "windows with both schedulers defined"),
        column("difference", pa.float64(), f"mean ANWG of {PAIR[0]} less that of {PAIR[1]}; NaN without a window"),
        column("low", pa.float64(), "low end of its 95 % percentile interval over resampled windows"),
        column("high", pa.float64(), "high end"),
        column("sign", pa.int8(), "1 or -1 if the interval excludes 0, else 0"),
    ]
)


def analyse(values: WindowValues) -> pd.DataFrame:
    """Rows of SCHEMA: sources by name, regions in the study's order; none unless both schedulers have values."""
    if not set(PAIR) <= set(values.schedulers) or PRIMARY_METRIC not in values.metrics:
        return SCHEMA.empty_table().to_pandas()
    pair = tuple(values.schedulers.index(name) for name in PAIR)
    rows = []
    for source in values.sources:
        for region in values.regions:
            differences = paired_differences(values.of(source, region, PRIMARY_METRIC), pair)
            low, high, _ = side_test(differences, generator())
            sign = int(np.sign(low)) if low * high > 0 else 0
            rows.append((source, region, len(differences), mean_of_defined(differences), low, high, sign))
    return pd.DataFrame(rows, columns=SCHEMA.names)

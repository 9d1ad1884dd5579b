"""Agreement of the rankings of each pair of sources, by requests per window: the published study's open item.

Windows of all numbers of requests start at the same rows; the numbers are compared on the windows that all of them
have. Each comparison has a fresh `default_rng(0)`, so that the same windows are drawn for every number.
"""

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.agreement_intervals import AGREEMENT_COLUMNS, compare_with_intervals
from servestudy.statistics.published_order import SEED
from servestudy.statistics.variants import on_shared_windows
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column
from servestudy.windows.sampling import WINDOW_REQUESTS

SCHEMA = pa.schema(
    [
        column("requests", pa.int32(), "requests per window; 200 is the run itself"),
        column("region", pa.string(), "load region, of windows calibrated at this number of requests"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        *AGREEMENT_COLUMNS,
    ]
)


def by_requests(reference: WindowValues, variants: dict[int, WindowValues]) -> dict[int, WindowValues]:
    """Values by ascending requests per window, the run's own among them, on shared windows and regions."""
    shared = on_shared_windows({WINDOW_REQUESTS: reference, **variants})
    return dict(sorted(shared.items()))


def analyse(reference: WindowValues, variants: dict[int, WindowValues]) -> pd.DataFrame:
    """Rows of SCHEMA: requests, region, source pair."""
    rows = []
    for requests, values in by_requests(reference, variants).items():
        for region in values.regions:
            for source_x, source_y in combinations(values.sources, 2):
                x, y = (values.of(source, region, PRIMARY_METRIC) for source in (source_x, source_y))
                rng = np.random.default_rng(SEED)
                row = compare_with_intervals(x, y, values.schedulers, PRIMARY_METRIC, rng)
                row |= {"requests": requests, "region": region, "source_x": source_x, "source_y": source_y}
                rows.append(row)
    return pd.DataFrame(rows, columns=SCHEMA.names)

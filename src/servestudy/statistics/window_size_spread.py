"""How far schedulers lie apart, and how stable their ranking is, by requests per window, source and region.

Windows are those of `window_size`. Resamples draw windows with replacement, the same ones for every number of
requests, so the ranking at another number is compared with that at 200 window by window.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.bootstrap import draw, percentile_interval, resampled_means, tau_b
from servestudy.statistics.published_order import SEED
from servestudy.statistics.sample_complexity import CRITERIA, means_of_defined, recovery
from servestudy.statistics.window_size import by_requests
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column
from servestudy.windows.sampling import WINDOW_REQUESTS

SPREADS = {
    "spread": "largest less smallest mean ANWG of the schedulers",
    "window_spread": "largest less smallest ANWG of the schedulers in a window, mean over windows",
    "tau_b_with_200": "Kendall's tau-b of the ranking with that of the run's own windows; NaN if a side is constant",
}

SCHEMA = pa.schema(
    [
        column("requests", pa.int32(), "requests per window; 200 is the run itself"),
        column("region", pa.string(), "load region, of windows calibrated at this number of requests"),
        column("source", pa.string(), "id of the source"),
        column("n_windows", pa.int32(), "windows, the same for every number of requests"),
        column("n_excluded", pa.int32(), "undefined (scheduler, window) values, left out of the means"),
        column("n_not_tied", pa.int32(), "windows where the schedulers differ at all"),
        *(
            column(f"{name}{suffix}", pa.float64(), f"{what}{end}")
            for name, what in SPREADS.items()
            for suffix, end in (
                ("", ""),
                ("_low", ": low end of its 95 % percentile interval"),
                ("_high", ": high end of its 95 % percentile interval"),
            )
        ),
        column("resamples_dropped", pa.int32(), "resamples without a tau-b, left out of its interval"),
        *(
            column(f"recovery_{name}", pa.float64(), f"share of resamples with {what} of all windows at this number")
            for name, what in zip(
                CRITERIA, ("the order", "the first scheduler", "the first three as a set"), strict=True
            )
        ),
    ]
)


def ranges(values: np.ndarray) -> np.ndarray:
    """Largest less smallest defined value along the first axis, NaN where none is defined."""
    none = np.isnan(values).all(axis=0)
    low, high = (
        np.where(np.isnan(values), np.inf, values).min(axis=0),
        np.where(np.isnan(values), -np.inf, values).max(axis=0),
    )
    return np.subtract(high, low, out=np.full(values.shape[1:], np.nan), where=~none)


def analyse(reference: WindowValues, variants: dict[int, WindowValues]) -> pd.DataFrame:
    """Rows of SCHEMA: requests, region, source."""
    of_requests = by_requests(reference, variants)
    by_name = np.argsort(reference.schedulers)
    rows = []
    for requests, values in of_requests.items():
        for region in values.regions:
            for source in values.sources:
                own, at_200 = (
                    side.of(source, region, PRIMARY_METRIC)[by_name] for side in (values, of_requests[WINDOW_REQUESTS])
                )
                rows.append({"requests": requests, "region": region, "source": source, **_row(own, at_200)})
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _row(own: np.ndarray, at_200: np.ndarray) -> dict[str, float]:
    """Columns of one condition [scheduler by name, window] and of the same at 200 requests."""
    n_windows = own.shape[1]
    (places,) = draw(np.random.default_rng(SEED), n_windows)
    everything = np.arange(n_windows)[None]
    apart = ranges(own)[None]
    points, resampled = ({
        "spread": ranges(resampled_means(own, drawn)),
        "window_spread": resampled_means(apart, drawn)[0],
        "tau_b_with_200": tau_b(resampled_means(own, drawn), resampled_means(at_200, drawn)),
    } for drawn in (everything, places))  # fmt: skip
    row = {
        "n_windows": n_windows,
        "n_excluded": int(np.isnan(own).sum()),
        "n_not_tied": int((apart > 0).sum()),
    }
    for name in SPREADS:
        interval = percentile_interval(resampled[name])
        row |= {name: float(points[name][0]), f"{name}_low": interval.low, f"{name}_high": interval.high}
    row["resamples_dropped"] = percentile_interval(resampled["tau_b_with_200"]).dropped
    reference = means_of_defined(own)
    met = recovery(reference, resampled_means(own, places))
    defined = (~np.isnan(reference)).sum() >= 2
    return row | {f"recovery_{name}": float(np.mean(met[name])) if defined else np.nan for name in CRITERIA}

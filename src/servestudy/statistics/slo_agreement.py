"""Agreement of the ranking under another SLO multiplier with the study's own, by source and region.

Source: the published study's extension: the primary metric, a fresh `default_rng(0)` for each comparison. The study
resamples the two sides independently although they are the same windows (rule "independent"); the rule "paired" draws
windows once for both sides, so that what differs between resamples is the SLO and not the windows.
"""

import numpy as np
import pandas as pd
import pyarrow as pa

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.agreement_intervals import AGREEMENT_COLUMNS, compare_with_intervals
from servestudy.statistics.bootstrap import draw, percentile_interval, present, resampled_means, tau_and_rho
from servestudy.statistics.published_order import SEED
from servestudy.statistics.variants import shared_regions
from servestudy.statistics.window_values import WindowValues, mean_of_defined
from servestudy.tables import column

RULES = ("independent", "paired")

SCHEMA = pa.schema(
    [
        column("rule", pa.string(), "independent (published): each side draws its own windows; paired: both the same"),
        column("multiplier", pa.int32(), "service times between arrival and deadline in the variant (x); 20 is y"),
        column("region", pa.string(), "load region"),
        column("source", pa.string(), "id of the source"),
        *AGREEMENT_COLUMNS,
        column("best_variant", pa.string(), "all schedulers with the largest mean in the variant, by name"),
        column("best_reference", pa.string(), "the same at multiplier 20"),
        column("best_changes", pa.bool_(), "no scheduler is among the best of both: a change that no tie rule makes"),
    ]
)  # fmt: skip


def best(condition: np.ndarray, schedulers: tuple[str, ...]) -> list[str]:
    """All schedulers with the largest mean of a condition [scheduler, window], by name."""
    means = np.array([mean_of_defined(row) for row in condition])
    if np.isnan(means).all():
        return []
    return sorted(np.array(schedulers)[means == np.nanmax(means)].tolist())


def paired_intervals(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Interval columns of two conditions [scheduler, window] of the same windows, resampled together.

    Windows without any value on both sides are not drawn.
    """
    both = present(np.concatenate([x, y]))
    if not both.shape[1]:
        return {}
    (places,) = draw(np.random.default_rng(SEED), both.shape[1])
    tau, rho = map(percentile_interval, tau_and_rho(*np.split(resampled_means(both, places), 2)))
    return {
        "tau_low": tau.low,
        "tau_high": tau.high,
        "rho_low": rho.low,
        "rho_high": rho.high,
        "resamples_dropped": tau.dropped,
    }


def analyse(reference: WindowValues, variants: dict[int, WindowValues]) -> pd.DataFrame:
    """Rows of SCHEMA: rule, multiplier, region, source."""
    rows = []
    for multiplier, variant in variants.items():
        for region in shared_regions(reference, variant):
            for source in reference.sources:
                x, y = (values.of(source, region, PRIMARY_METRIC) for values in (variant, reference))
                rng = np.random.default_rng(SEED)
                row = compare_with_intervals(x, y, reference.schedulers, PRIMARY_METRIC, rng)
                bests = [best(side, reference.schedulers) for side in (x, y)]
                row |= {
                    "multiplier": multiplier,
                    "region": region,
                    "source": source,
                    "best_variant": ", ".join(bests[0]),
                    "best_reference": ", ".join(bests[1]),
                    "best_changes": bool(all(bests)) and not set(bests[0]) & set(bests[1]),
                }
                rows += [row | {"rule": "independent"}, row | paired_intervals(x, y) | {"rule": "paired"}]
    rows.sort(key=lambda row: RULES.index(row["rule"]))  # stable
    return pd.DataFrame(rows, columns=SCHEMA.names)

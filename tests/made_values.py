"""Window values for tests of the analyses: random ones with ties and gaps, and the published ones."""

import numpy as np
import pandas as pd

from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.window_values import METRIC_NAMES, VALUE_COLUMNS, WindowValues, load_values
from servestudy.workload import REGIONS

SCHEDULERS = ("slow", "fair", "edge", "twin_b", "twin_a", "bare")  # not in the order of their names


def made_values(
    seed=0,
    n_windows=(40, 40, 40),
    metrics=METRIC_NAMES,
    regions=tuple(REGIONS),
    schedulers=SCHEDULERS,
    levels=20,
    undefined=0.0,
    transform=lambda values: values,
):
    """WindowValues of multiples of 1/200 in `levels` steps (ties are frequent), a share of them undefined.

    Schedulers differ a little in their mean, twin_a equals twin_b. `transform` changes each source's array.
    """
    rng = np.random.default_rng(seed)
    sources = tuple("abc"[: len(n_windows)])
    windows = {s: tuple(f"{s}_w{n:02d}" for n in range(count)) for s, count in zip(sources, n_windows, strict=True)}
    values = {}
    for source in sources:
        shape = (len(regions), len(metrics), len(schedulers), len(windows[source]))
        array = (rng.integers(0, levels, shape) + np.arange(len(schedulers))[:, None]) / 200
        array[rng.random(shape) < undefined] = np.nan
        if "twin_a" in schedulers:
            array[:, :, schedulers.index("twin_a")] = array[:, :, schedulers.index("twin_b")]
        values[source] = transform(array)
    return WindowValues(sources, tuple(regions), tuple(metrics), tuple(schedulers), windows, values)


def published_values(shared, folder):
    """ANWG of six published windows, two a source, at two regions, read as a foreign long table."""
    table = pd.read_csv(shared / "goldens/anwg.csv").rename(columns={"policy": "scheduler", "anwg": "value"})
    table["source"] = table["window_id"].str.extract(r"^(.*?)_(?:stage0|pilot)")
    table["metric"] = PRIMARY_METRIC
    table[list(VALUE_COLUMNS)].to_csv(folder / "anwg.csv", index=False)
    return load_values([folder / "anwg.csv"])

"""The published study's launcher, one resample at a time, with plain loops, dictionaries and SciPy: an oracle.

Written from the study's rules without a look at `servestudy.statistics`, of which it uses only the input type.
"""

import math
import warnings
from functools import cache
from itertools import combinations

import numpy as np
from scipy import stats

from servestudy.statistics.window_values import WindowValues

LOWER_IS_BETTER = {"slo_violation_rate", "mean_latency", "p95_latency", "mean_ttft", "p95_ttft"}


def example_values(
    seed=0,
    sources=("azure_x", "bailian_x", "burstgpt_x"),
    windows=(6, 5, 7),
    schedulers=("slai_faithful", "fifo", "sarathi_faithful", "edf", "vllm_chunked_prefill_faithful", "vllm_faithful"),
    regions=("LOW", "PRE_KNEE", "KNEE", "POST_KNEE", "OVERLOAD", "HIGH_PRESSURE"),
    metrics=("arrival_normalized_weighted_goodput", "slo_violation_rate", "mean_latency"),
    undefined=0.08,
):
    """Values with ties, zeros, undefined ones, order that depends on the source, and one window without any value."""
    rng = np.random.default_rng(seed)
    values = {}
    for number, (source, count) in enumerate(zip(sources, windows, strict=True)):
        level = np.roll(np.linspace(0, 30, len(schedulers)).astype(int), number)[:, None]
        shape = (len(regions), len(metrics), len(schedulers), count)
        array = np.maximum(level + rng.integers(-6, 7, shape), 0) / 40
        array[:, 1:][rng.random(array[:, 1:].shape) < undefined] = np.nan
        array[0, 0, :, :] = 0.5
        array[-1, 1:, :, 0] = np.nan
        values[source] = array
    ids = {
        source: tuple(f"{source}_w{n}" for n in range(count)) for source, count in zip(sources, windows, strict=True)
    }
    return WindowValues(tuple(sources), tuple(regions), tuple(metrics), tuple(schedulers), ids, values)


def condition(values, source, region, metric):
    """Windows that have a value, each a dictionary of the defined values by scheduler."""
    array = values.values[source][values.regions.index(region), values.metrics.index(metric)]
    windows = []
    for column in array.T:
        defined = {name: float(v) for name, v in zip(values.schedulers, column, strict=True) if not math.isnan(v)}
        if defined:
            windows.append(defined)
    return windows


def ranking(windows):
    names = sorted({name for window in windows for name in window})
    return {name: float(np.mean([window[name] for window in windows if name in window])) for name in names}


def correlate(x, y):
    """tau, its p, rho, its p of two rankings."""
    names = sorted(set(x) & set(y))
    if len(names) < 2:
        return (math.nan,) * 4
    sides = [x[name] for name in names], [y[name] for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        tau, rho = stats.kendalltau(*sides), stats.spearmanr(*sides)
    return float(tau[0]), float(tau[1]), float(rho[0]), float(rho[1])


def interval(draws):
    defined = [value for value in draws if not math.isnan(value)]
    low, high = np.quantile(defined, [0.025, 0.975]) if defined else (math.nan, math.nan)
    return float(low), float(high), len(draws) - len(defined)


def resample(windows, rng):
    return [windows[place] for place in rng.choice(len(windows), size=len(windows), replace=True)]


def compare(x, y, rng, resamples):
    """Point estimates and intervals of two conditions."""
    tau, p, rho, _ = correlate(ranking(x), ranking(y))
    draws = []
    if x and y:
        for _ in range(resamples):
            drawn_x = resample(x, rng)
            drawn_y = resample(y, rng)
            draws.append(correlate(ranking(drawn_x), ranking(drawn_y)))
    else:
        draws = [(math.nan,) * 4] * resamples
    tau_low, tau_high, dropped = interval([draw[0] for draw in draws])
    rho_low, rho_high, _ = interval([draw[2] for draw in draws])
    return {
        "tau_b": tau,
        "tau_p": p,
        "tau_low": tau_low,
        "tau_high": tau_high,
        "rho": rho,
        "rho_low": rho_low,
        "rho_high": rho_high,
        "resamples_dropped": dropped,
        "windows_x": len(x),
        "windows_y": len(y),
    }


def margin(a, b, rule, metric):
    if a == b:
        return 0.0
    worst = max(a, b) if rule == "oriented" and metric in LOWER_IS_BETTER else min(a, b)
    if worst == 0:
        return math.nan if rule == "published" else math.inf
    return abs(a - b) / abs(worst)


def needs_test(x, y, a, b, rule, metric):
    """The class of two schedulers in two conditions, or None if only intervals can tell; their margins."""
    x, y = ranking(x), ranking(y)
    if not all(name in side for name in (a, b) for side in (x, y)):
        return "UNDEFINED_UNESTIMABLE", (math.nan, math.nan)
    margins = margin(x[a], x[b], rule, metric), margin(y[a], y[b], rule, metric)
    differences = x[a] - x[b], y[a] - y[b]
    if any(map(math.isnan, margins)):
        return "UNDEFINED_UNESTIMABLE", margins
    if not (differences[0] < 0 < differences[1] or differences[1] < 0 < differences[0]):
        return "STABLE_NO_SIGN_CHANGE", margins
    if not (margins[0] > 0.10 and margins[1] > 0.10):
        return "MICROSCOPIC_SIGN_CHANGE", margins
    return None, margins


def test_side(windows, a, b, rng, resamples):
    """Interval ends and p of the mean difference."""
    differences = [window[a] - window[b] for window in windows if a in window and b in window]
    if not differences:
        return math.nan, math.nan, math.nan
    count = len(differences)
    means = []
    for _ in range(resamples):
        means.append(float(np.mean([differences[place] for place in rng.integers(0, count, size=count)])))
    low, high = np.quantile(means, [0.025, 0.975])
    below, above = (sum(m <= 0 for m in means) / resamples, sum(m >= 0 for m in means) / resamples)
    return float(low), float(high), min(1.0, 2 * min(below, above))


test_side.__test__ = False


def reversal_class(sides):
    return (
        "SUPPORTED_PRACTICAL_REVERSAL"
        if all(low > 0 or high < 0 for low, high, _ in sides)
        else "UNSUPPORTED_SIGN_CHANGE_WIDE_CI"
    )


def launch(values, splits, families, resamples):
    """All records that draw, by step and key, from one generator in the study's order.

    `splits` is a list of (source, rule, groups of window numbers by name), `families` maps schedulers.
    """
    rng = np.random.default_rng(0)
    records = {"comparisons": {}, "reversals": {}, "temporal": {}, "robustness": {}}
    pairs = list(combinations(sorted(values.sources), 2))
    for metric in values.metrics:
        for region in values.regions:
            for x, y in pairs:
                sides = condition(values, x, region, metric), condition(values, y, region, metric)
                records["comparisons"][metric, region, x, y] = compare(*sides, rng, resamples)
    for metric in values.metrics:
        for region in values.regions:
            for x, y in pairs:
                sides = condition(values, x, region, metric), condition(values, y, region, metric)
                for a, b in combinations(sorted(values.schedulers), 2):
                    label, margins = needs_test(*sides, a, b, "published", metric)
                    tests = [(math.nan,) * 3] * 2
                    if label is None:
                        tests = [test_side(side, a, b, rng, resamples) for side in sides]
                        label = reversal_class(tests)
                    records["reversals"][metric, region, x, y, a, b] = (label, margins, tests)
    primary = values.metrics[0]
    for source, rule, groups in splits:
        for region in values.regions:
            for x, y in combinations(sorted(groups), 2):
                windows = condition(values, source, region, primary)
                sides = [[windows[n] for n in groups[name]] for name in (x, y)]
                records["temporal"][source, rule, region, x, y] = compare(*sides, rng, resamples)
    everything = (sorted(values.sources), values.regions, values.schedulers)
    variants = [("PRIMARY_ONLY", "all schedulers", *everything)]
    for word in ("burstgpt", "azure", "bailian"):
        (out,) = (source for source in values.sources if source.startswith(word))
        kept = [source for source in sorted(values.sources) if source != out]
        variants.append(("LEAVE_ONE_SOURCE_OUT", out, kept, *everything[1:]))
    four = [region for region in ("LOW", "PRE_KNEE", "KNEE", "OVERLOAD") if region in values.regions]
    variants.append(("LOAD_CALIBRATION_SENSITIVITY", "four regions", everything[0], four, everything[2]))
    for out in sorted(set(families.values())):
        kept = [name for name in values.schedulers if families[name] != out]
        variants.append(("LEAVE_ONE_POLICY_FAMILY_OUT", out, *everything[:2], kept))
    for family, variant, sources, regions, schedulers in variants:
        for region in regions:
            for x, y in combinations(sources, 2):
                sides = [
                    [{n: v for n, v in window.items() if n in schedulers} for window in windows]
                    for windows in (condition(values, source, region, primary) for source in (x, y))
                ]
                records["robustness"][family, variant, region, x, y] = compare(*sides, rng, resamples)
    return records


RESAMPLES = 20
BOUNDARY_EPOCH_S = 1715731200.0
START_S = {
    "azure_x": [BOUNDARY_EPOCH_S + s for s in (-5.0, 0.0, 1.0, -0.5, 9.0, 3.0)],
    "bailian_x": [4.0, 1.0, 3.0, 2.0, 5.0],
    "burstgpt_x": [50.0, 10.0, 30.0, 20.0, 70.0, 60.0, 40.0],
}
START_ROW = {
    "azure_x": [0, 1, 2, 3, 4, 5],
    "bailian_x": [40, 10, 30, 20, 50],
    "burstgpt_x": [6, 5, 4, 3, 2, 1, 0],
}
SPLITS = [
    ("burstgpt_x", "tercile", {"EARLY": [1, 3], "MIDDLE": [2, 6], "LATE": [0, 4, 5]}),
    ("burstgpt_x", "bisection", {"EARLY": [1, 2, 3], "LATE": [0, 4, 5, 6]}),
    ("azure_x", "calendar", {"BEFORE_BOUNDARY": [0, 3], "AT_OR_AFTER_BOUNDARY": [1, 2, 4, 5]}),
    ("bailian_x", "position", {"FIRST": [0, 1], "SECOND": [2, 3, 4]}),
]
FAMILIES = {
    "fifo": "A_ARRIVAL_ORDER",
    "edf": "B_DEADLINE_AWARE",
    "vllm_faithful": "E_TOKEN_BUDGET_BATCHING",
    "sarathi_faithful": "F_CHUNKED_PREFILL",
    "vllm_chunked_prefill_faithful": "F_CHUNKED_PREFILL",
    "slai_faithful": "H_ADJACENT_SLO_AWARE",
}


def write_window_index(path):
    """The window index of `example_values`."""
    lines = ["source,window_id,start_row,time_s_min"]
    for source, times in START_S.items():
        rows = zip(START_ROW[source], times, strict=True)
        lines += [f"{source},{source}_w{n},{row},{time!r}" for n, (row, time) in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@cache
def launched():
    """Records of the example, with few resamples."""
    return launch(example_values(), SPLITS, FAMILIES, RESAMPLES)


def assert_agrees(row, expected):
    """To the last bit."""
    for name, value in expected.items():
        assert row[name] == value or (math.isnan(row[name]) and math.isnan(value)), (name, row[name], value)

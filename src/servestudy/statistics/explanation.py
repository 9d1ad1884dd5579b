"""Which properties of a window go with a reversal? One logistic regression a region, source pair and scheduler pair.

Source: the published study's descriptor explanation, for the primary metric. A window of source X is an observation if
the two schedulers differ by more than 10 % of the loser's value in it and, on average, in source Y (averages over the
windows in which both are defined; a loser at 0 has no margin). It is a site if the signs of the two differences differ.
The windows of Y are observed against X likewise, and both sets pooled. Five descriptors of the window index, z-scored
(population sd), explain the label: unpenalised maximum likelihood by BFGS from zeros. It explains nothing causally, and
has no standard errors.

The label is confounded with the source by construction: where both sources order the schedulers alike in most windows
or unlike in most, one source's windows are sites and the other's are not. So beside the study's rule (`published`)
stand one with the source as a further covariate (`with_source`), fitted where both sources have sites and non-sites,
and one for the windows of each source alone (`only_x`, `only_y`).

The study is silent on how the likelihood is scaled and differentiated: here it is the sum, with its exact gradient.
BFGS can stop with `converged` where no finite estimate exists, because a plane separates the labels; a column says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.optimize import linprog, minimize
from scipy.special import expit

from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics.reversal_rules import PRACTICAL_MARGIN, scheduler_pairs
from servestudy.statistics.window_values import WindowValues
from servestudy.tables import column

DESCRIPTORS = ("burstiness_b", "prompt_tokens_cv", "output_tokens_cv", "long_context_fraction", "concurrency_proxy")
RULES = ("published", "with_source", "only_x", "only_y")
READABLE_WINDOWS = 20  # the study's text reads only fits with as many observations
LARGEST_LOGIT, SMALLEST_LIKELIHOOD = 30.0, 1e-12

SCHEMA = pa.schema(
    [
        column(
            "rule",
            pa.string(),
            "published; with_source: the source is a covariate; only_x, only_y: one source's windows",
        ),
        column("region", pa.string(), "load region"),
        column("source_x", pa.string(), "first source of the pair, by name"),
        column("source_y", pa.string(), "second source"),
        column("scheduler_a", pa.string(), "first scheduler of the pair, by name"),
        column("scheduler_b", pa.string(), "second scheduler"),
        *(column(f"windows_{side}", pa.int32(), f"observations: windows of source {side}") for side in "xy"),
        *(column(f"sites_{side}", pa.int32(), f"those of them that are sites, source {side}") for side in "xy"),
        column("windows_without_descriptor", pa.int32(), "further windows, dropped because a descriptor is missing"),
        column("fit", pa.string(), "fitted, too_few_windows, one_label or one_label_in_a_source"),
        column("converged", pa.bool_(), "the optimiser says so; false if not fitted"),
        column("finite_estimate", pa.bool_(), "no plane separates sites from non-sites; false if not fitted"),
        column("read_by_study", pa.bool_(), "converged with 20 observations or more"),
        column("intercept", pa.float64(), "log odds of a site at the mean of all descriptors; NaN if not fitted"),
        *(
            column(name, pa.float64(), f"change of the log odds by one sd of {name}; NaN if not fitted")
            for name in DESCRIPTORS
        ),
        column(
            "source_y_effect", pa.float64(), "log odds of a window of source y against one of x; NaN but with_source"
        ),
    ]
)


@dataclass(frozen=True)
class Observations:
    """Windows that are observed: `values` [window, descriptor]; by window `is_site`, and `of_y`: its source is y.

    `incomplete` [side] counts the windows dropped for want of a descriptor.
    """

    values: np.ndarray
    is_site: np.ndarray
    of_y: np.ndarray
    incomplete: tuple[int, int]

    def seen_by(self, rule: str) -> "Observations":
        """Those that the rule's model is fitted on."""
        if not rule.startswith("only_"):
            return self
        kept = self.of_y == (rule == "only_y")
        dropped = tuple(n * (rule == f"only_{side}") for n, side in zip(self.incomplete, "xy", strict=True))
        return Observations(self.values[kept], self.is_site[kept], self.of_y[kept], dropped)

    def problem(self, rule: str) -> str:
        """Why the rule's model is not fitted; empty if it is. One observation more than parameters is needed."""
        parameters = 1 + len(DESCRIPTORS) + (rule == "with_source")
        if len(self.is_site) <= parameters:
            return "too_few_windows"
        if _one_label(self.is_site):
            return "one_label"
        if rule == "with_source" and (_one_label(self.is_site[self.of_y]) or _one_label(self.is_site[~self.of_y])):
            return "one_label_in_a_source"
        return ""

    def design(self, rule: str) -> np.ndarray:
        """Columns: 1, the z-scored descriptors (0 if constant), and whether the source is y where the rule asks."""
        sd = self.values.std(axis=0)
        constant = np.ptp(self.values, axis=0) == 0
        z = np.where(constant, 0.0, (self.values - self.values.mean(axis=0)) / np.where(constant, 1.0, sd))
        columns = [np.ones(len(z)), *z.T] + ([self.of_y.astype(float)] if rule == "with_source" else [])
        return np.column_stack(columns)


def analyse(values: WindowValues, window_index: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rows of SCHEMA: regions in order, pairs of sources and of schedulers by name, rules.

    Raises UserError without the primary metric or the window index, or if the index lacks a window or a descriptor.
    """
    if PRIMARY_METRIC not in values.metrics:
        raise UserError(
            f"no values of {PRIMARY_METRIC}, which this analysis explains; there are {', '.join(values.metrics)}"
        )
    descriptors = {source: _descriptors(values, source, window_index) for source in values.sources}
    rows = []
    for region, pair, (a, b) in _cells(values):
        observed = observe(
            *(values.of(source, region, PRIMARY_METRIC)[[a, b]] for source in pair),
            *(descriptors[source] for source in pair),
        )
        keys = (region, *pair, values.schedulers[a], values.schedulers[b])
        rows += [dict(zip(SCHEMA.names[:6], (rule, *keys), strict=True)) | explain(observed, rule) for rule in RULES]
    return pd.DataFrame(rows, columns=SCHEMA.names)


def observe(x: np.ndarray, y: np.ndarray, descriptors_x: np.ndarray, descriptors_y: np.ndarray) -> Observations:
    """Observations of one cell: x and y are values [first or second scheduler, window] of the two sources."""
    sites = [_sites(x, y), _sites(y, x)]
    values = np.concatenate([descriptors_x, descriptors_y])
    of_y = np.repeat([False, True], [x.shape[1], y.shape[1]])
    label = np.concatenate(sites)
    observed, complete = ~np.isnan(label), ~np.isnan(values).any(axis=1)
    kept = observed & complete
    incomplete = tuple(int(np.sum(observed & ~complete & side)) for side in (~of_y, of_y))
    return Observations(values[kept], label[kept] == 1, of_y[kept], incomplete)


def explain(observed: Observations, rule: str) -> dict:
    """The columns of SCHEMA after the keys, for the observations that the rule sees."""
    observed = observed.seen_by(rule)
    found = {
        **{f"windows_{side}": int(np.sum(of)) for side, of in (("x", ~observed.of_y), ("y", observed.of_y))},
        **{f"sites_{s}": int(np.sum(observed.is_site[of])) for s, of in (("x", ~observed.of_y), ("y", observed.of_y))},
        "windows_without_descriptor": sum(observed.incomplete),
        "fit": observed.problem(rule) or "fitted",
        **dict.fromkeys(("converged", "finite_estimate", "read_by_study"), False),
        **dict.fromkeys(("intercept", *DESCRIPTORS, "source_y_effect"), np.nan),
    }
    if found["fit"] == "fitted":
        design = observed.design(rule)
        coefficients, converged = fit_logistic(design, observed.is_site)
        found["converged"], found["finite_estimate"] = converged, not separable(design, observed.is_site)
        found["read_by_study"] = converged and len(observed.is_site) >= READABLE_WINDOWS
        found |= dict(zip(("intercept", *DESCRIPTORS, "source_y_effect"), coefficients.tolist(), strict=False))
    return found


def fit_logistic(design: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, bool]:
    """Maximum likelihood by BFGS from zeros; returns the coefficients and whether the optimiser says it converged.

    As in the study: at most 500 iterations, logits clipped to +-30, 1e-12 added inside the logarithms.
    """

    def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
        logit = design @ coefficients
        p = expit(np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT))
        right = np.where(label, p, 1 - p) + SMALLEST_LIKELIHOOD
        slope = np.where(label, -1, 1) * p * (1 - p) / right * (np.abs(logit) <= LARGEST_LOGIT)
        return -np.sum(np.log(right)), design.T @ slope

    result = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"maxiter": 500})
    return result.x, bool(result.success)


def separable(design: np.ndarray, label: np.ndarray) -> bool:
    """Whether a plane has all sites on or beyond one side and all others on or before it, not all on the plane.

    Then the likelihood grows without end, and a maximum-likelihood estimate does not exist.
    """
    side = np.where(label, 1.0, -1.0)[:, None] * design
    best = linprog(-side.sum(axis=0), A_ub=-side, b_ub=np.zeros(len(side)), bounds=(-1, 1))
    return bool(-best.fun > 1e-7)


def _cells(values: WindowValues) -> Iterator[tuple[str, tuple[str, str], tuple[int, int]]]:
    for region in values.regions:
        for pair in combinations(values.sources, 2):
            for schedulers in scheduler_pairs(values):
                yield region, pair, schedulers


def _sites(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """By window of `own`: 1 if its order is reversed against the average of `other`, 0 if not, NaN if not observed."""
    average = other[:, ~np.isnan(other).any(axis=0)]
    reference = _clear_sign(average.mean(axis=1, keepdims=True))[0] if average.size else np.nan
    sign = _clear_sign(own)
    return np.where(np.isnan(sign) | np.isnan(reference), np.nan, sign != reference)


def _clear_sign(pair: np.ndarray) -> np.ndarray:
    """Sign of first less second scheduler where they differ by more than the margin; elsewhere NaN."""
    difference, loser = pair[0] - pair[1], np.abs(np.minimum(*pair))
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = (difference != 0) & (loser != 0) & (np.abs(difference) / loser > PRACTICAL_MARGIN)
    return np.where(clear, np.sign(difference), np.nan)


def _one_label(is_site: np.ndarray) -> bool:
    return bool(np.all(is_site) or not np.any(is_site))


def _descriptors(values: WindowValues, source: str, window_index: pd.DataFrame | None) -> np.ndarray:
    """Array [window, descriptor] of a source's windows, NaN where missing."""
    if window_index is None:
        raise UserError("the descriptors of the windows are needed: give the run's window index, --window-index FILE")
    missing = [name for name in DESCRIPTORS if name not in window_index.columns]
    if missing:
        raise UserError(f"the window index has no column {', '.join(missing)}; it must hold the windows' descriptors")
    windows = [(source, window) for window in values.windows[source]]
    absent = [
        window for key, window in zip(windows, values.windows[source], strict=True) if key not in window_index.index
    ]
    if absent:
        raise UserError(f"the window index lacks window {absent[0]} of {source}; give that of the same run")
    found = window_index.loc[windows, list(DESCRIPTORS)]
    numbers = found.apply(pd.to_numeric, errors="coerce")
    wrong = np.argwhere((numbers.isna() & found.notna()).to_numpy())
    if len(wrong):
        row, place = wrong[0]
        value = found.iat[row, place]
        raise UserError(f"the window index has {DESCRIPTORS[place]} {value!r} at {windows[row][1]}, must be a number")
    return numbers.to_numpy(float)

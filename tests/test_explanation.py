"""The descriptor explanation against plain loops and statsmodels; separation, ties, undefined values, bad indexes."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from made_values import made_values, published_values

from servestudy.cli import main
from servestudy.errors import UserError
from servestudy.metrics import PRIMARY_METRIC
from servestudy.statistics import explanation
from servestudy.statistics.explanation import DESCRIPTORS, RULES, SCHEMA, analyse, fit_logistic, separable
from servestudy.tables import read_table

KEYS = SCHEMA.names[:6]
COEFFICIENTS = ["intercept", *DESCRIPTORS]


def an_index(values, seed=0):
    rng = np.random.default_rng(seed)
    keys = [(source, window) for source in values.sources for window in values.windows[source]]
    index = pd.MultiIndex.from_tuples(keys, names=["source", "window_id"])
    return pd.DataFrame(rng.normal(3, 2, (len(keys), len(DESCRIPTORS))), index, list(DESCRIPTORS))


def anwg_values(**options):
    return made_values(**{"metrics": (PRIMARY_METRIC,), "regions": ("LOW", "KNEE"), "levels": 10} | options)


def clear_sign(a, b):
    """Sign of a - b where it is more than 10 % of the smaller value, otherwise 0."""
    if math.isnan(a) or math.isnan(b) or a == b or min(a, b) == 0 or abs(a - b) / abs(min(a, b)) <= 0.10:
        return 0
    return 1 if a > b else -1


def slow_observations(values, index, region, pair, schedulers):
    """(source is y, is a site, descriptors) of each observed window, by plain loops; windows without a descriptor."""
    rows = dict(zip(index.index, index[list(DESCRIPTORS)].to_numpy(float), strict=True))
    places = [values.schedulers.index(name) for name in schedulers]
    found, incomplete = [], 0
    for own, other in (pair, pair[::-1]):
        x, y = (values.of(source, region, PRIMARY_METRIC)[places] for source in (own, other))
        both = [(a, b) for a, b in y.T if not (math.isnan(a) or math.isnan(b))]
        reference = clear_sign(np.mean([a for a, _ in both]), np.mean([b for _, b in both])) if both else 0
        for window, a, b in zip(values.windows[own], *x, strict=True):
            sign = clear_sign(a, b)
            if reference and sign:
                descriptors = rows[own, window]
                if any(math.isnan(value) for value in descriptors):
                    incomplete += 1
                else:
                    found.append((own == pair[1], sign != reference, descriptors))
    return found, incomplete


def test_observations_and_sites_equal_plain_loops():
    values = anwg_values(undefined=0.1)
    index = an_index(values)
    index.iloc[::17, 2] = np.nan
    result = analyse(values, index)
    assert list(result.columns) == SCHEMA.names
    assert len(result) == len(RULES) * 2 * 3 * 15
    assert result["windows_without_descriptor"].max() > 2
    for row in result[result["rule"] == "published"].itertuples():
        pair, schedulers = (row.source_x, row.source_y), (row.scheduler_a, row.scheduler_b)
        assert schedulers == tuple(sorted(schedulers))
        found, incomplete = slow_observations(values, index, row.region, pair, schedulers)
        assert row.windows_without_descriptor == incomplete
        for side, of_y in (("x", False), ("y", True)):
            labels = [site for is_y, site, _ in found if is_y == of_y]
            assert (getattr(row, f"windows_{side}"), getattr(row, f"sites_{side}")) == (len(labels), sum(labels))
        labels = {site for _, site, _ in found}
        expected = "too_few_windows" if len(found) < 7 else "one_label" if len(labels) < 2 else "fitted"
        assert row.fit == expected
    assert {"fitted", "too_few_windows"} <= set(result["fit"])


def test_fits_equal_statsmodels_where_an_estimate_exists():
    values = anwg_values(seed=3, regions=("KNEE",))
    index = an_index(values)
    result = analyse(values, index)
    fitted = result[result["finite_estimate"]].iloc[::3]
    assert fitted["rule"].value_counts().reindex(RULES).min() >= 5
    for row in fitted.itertuples():
        pair, schedulers = (row.source_x, row.source_y), (row.scheduler_a, row.scheduler_b)
        found, _ = slow_observations(values, index, row.region, pair, schedulers)
        if row.rule.startswith("only"):
            found = [item for item in found if item[0] == (row.rule == "only_y")]
        of_y, label, descriptors = (np.array(part) for part in zip(*found, strict=True))
        assert len(label) == row.windows_x + row.windows_y
        design = sm.add_constant((descriptors - descriptors.mean(axis=0)) / descriptors.std(axis=0))
        names = COEFFICIENTS
        if row.rule == "with_source":
            design, names = np.column_stack([design, of_y]), [*COEFFICIENTS, "source_y_effect"]
        else:
            assert math.isnan(row.source_y_effect)
        expected = sm.Logit(label.astype(float), design).fit(disp=False, method="newton", maxiter=100)
        assert row.converged
        assert [getattr(row, name) for name in names] == pytest.approx(expected.params.tolist(), abs=2e-4)
        assert row.read_by_study == (len(label) >= 20)


def test_the_source_is_a_covariate_only_where_both_sources_have_both_labels():
    values = anwg_values(seed=1, regions=("KNEE",))
    result = analyse(values, an_index(values)).set_index(KEYS)
    mixed = (result["sites_x"] % result["windows_x"].clip(1) != 0) & (
        result["sites_y"] % result["windows_y"].clip(1) != 0
    )
    with_source, published = result.xs("with_source"), result.xs("published")
    possible = (published["fit"] == "fitted") & (published["windows_x"] + published["windows_y"] > 7)
    assert (with_source["fit"][possible & mixed.xs("with_source")] == "fitted").all()
    assert (with_source["fit"][possible & ~mixed.xs("with_source")] == "one_label_in_a_source").all()
    assert {"fitted", "one_label_in_a_source"} <= set(with_source["fit"])


def test_separated_labels_have_no_finite_estimate_although_the_optimiser_may_converge():
    rng = np.random.default_rng(0)
    design = np.column_stack([np.ones(40), rng.normal(size=(40, 5))])
    label = design[:, 2] > 0
    assert separable(design, label)
    assert fit_logistic(design, label)[1]
    label[[3, 4, 5]] = ~label[[3, 4, 5]]
    assert not separable(design, label)
    nearly = np.column_stack([np.ones(6), [0, 0, 0, 0, 1, 1]])
    assert separable(nearly, np.array([False, True, False, True, True, True]))  # only the other side is mixed
    constant = np.column_stack([np.ones(6), np.zeros(6)])
    assert not separable(constant, np.array([False, True] * 3))


def test_a_constant_descriptor_has_no_effect_and_changes_no_other():
    values = anwg_values(seed=3, regions=("KNEE",), n_windows=(20, 20))
    index = an_index(values)
    result = analyse(values, index.assign(burstiness_b=2.0))
    fitted = result[result["fit"] == "fitted"]
    assert (fitted["burstiness_b"] == 0).all()
    assert np.isfinite(fitted[COEFFICIENTS].to_numpy()).all()


@pytest.mark.parametrize(
    "transform",
    [lambda v: np.full_like(v, 0.5), lambda v: np.full_like(v, np.nan), np.zeros_like],
    ids=["all tied", "all undefined", "all zero"],
)
def test_without_clear_differences_nothing_is_observed(transform):
    values = anwg_values(transform=transform)
    result = analyse(values, an_index(values))
    assert (result[["windows_x", "windows_y", "sites_x", "sites_y"]] == 0).all(axis=None)
    assert (result["fit"] == "too_few_windows").all()
    assert result[COEFFICIENTS].isna().all(axis=None)
    assert not result[["converged", "finite_estimate", "read_by_study"]].any(axis=None)


def test_an_order_that_all_windows_share_has_no_site():
    ordered = anwg_values(transform=lambda v: np.broadcast_to(np.arange(1.0, 7)[:, None], v.shape).copy())
    result = analyse(ordered, an_index(ordered))
    assert (result["fit"] == "one_label").all()
    assert (result[["sites_x", "sites_y"]] == 0).all(axis=None)


def test_one_window_one_source_or_one_scheduler():
    values = anwg_values(n_windows=(1, 1))
    assert (analyse(values, an_index(values))["fit"] == "too_few_windows").all()
    for options in ({"n_windows": (5,)}, {"schedulers": ("alone",)}):
        values = anwg_values(**options)
        assert analyse(values, an_index(values)).empty


def test_the_published_windows_are_too_few(shared, tmp_path):
    values = published_values(shared, tmp_path)
    index = an_index(values)
    result = analyse(values, index)
    assert (result["fit"] == "too_few_windows").all()
    assert result["windows_x"].sum() > 0
    for row in result[result["rule"] == "published"].itertuples():
        schedulers = (row.scheduler_a, row.scheduler_b)
        found, _ = slow_observations(values, index, row.region, (row.source_x, row.source_y), schedulers)
        assert row.windows_x + row.windows_y == len(found)
        assert row.sites_x + row.sites_y == sum(site for _, site, _ in found)


def test_what_is_wrong_with_the_index_is_named():
    values = anwg_values()
    index = an_index(values)
    with pytest.raises(UserError, match="--window-index FILE"):
        analyse(values, None)
    with pytest.raises(UserError, match="no column prompt_tokens_cv"):
        analyse(values, index.drop(columns="prompt_tokens_cv"))
    with pytest.raises(UserError, match="lacks window a_w03 of a"):
        analyse(values, index.drop(index=("a", "a_w03")))
    index = index.astype(object)
    index.loc[("b", "b_w02"), "burstiness_b"] = "many"
    with pytest.raises(UserError, match="burstiness_b 'many' at b_w02, must be a number"):
        analyse(values, index)
    with pytest.raises(UserError, match="no values of arrival_normalized"):
        analyse(made_values(metrics=("p95_latency",)), index)


def test_the_command_reads_cells_and_index(tmp_path):
    values = anwg_values(n_windows=(12, 12), regions=("KNEE",))
    rows = [
        (source, window, "KNEE", scheduler, PRIMARY_METRIC, value)
        for source in values.sources
        for scheduler, row in zip(values.schedulers, values.of(source, "KNEE", PRIMARY_METRIC), strict=True)
        for window, value in zip(values.windows[source], row, strict=True)
    ]
    columns = ["source", "window_id", "region", "scheduler", "metric", "value"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "values.csv", index=False)
    index = an_index(values)
    index.assign(start_row=np.arange(24), time_s_min=0.0).reset_index().to_csv(tmp_path / "index.csv", index=False)
    out = tmp_path / "explanation.parquet"
    arguments = ["--cells", tmp_path / "values.csv", "--window-index", tmp_path / "index.csv", "--out", out]
    assert main(["statistics", "explanation", *map(str, arguments)]) == 0
    written = read_table(out, SCHEMA).to_pandas()
    pd.testing.assert_frame_equal(written, analyse(values, index), check_dtype=False)
    pairs = list(itertools.combinations(sorted(values.schedulers), 2))
    assert (
        written.loc[written["rule"] == "published", ["scheduler_a", "scheduler_b"]].apply(tuple, axis=1).tolist()
        == pairs
    )


def test_constants_are_the_published_ones():
    assert (explanation.LARGEST_LOGIT, explanation.SMALLEST_LIKELIHOOD) == (30, 1e-12)
    assert explanation.READABLE_WINDOWS == 20

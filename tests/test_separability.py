"""Separability against plain scikit-learn, one fold at a time; missing and constant features, missing folds."""

import math

import numpy as np
import pytest
from made_features import feature_table
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from servestudy.statistics import separability, separability_drivers
from servestudy.statistics.regrown_forest import RegrownForest
from servestudy.statistics.separability import MODELS, SEED, balanced_accuracy, classify, folds, macro_f1, preparation
from servestudy.statistics.separability_drivers import attribute
from servestudy.statistics.workload_features import CLASSIFIER_FEATURES, CLASSIFIER_GROUPS, STRATA

INDEPENDENT = {
    "logistic_regression": lambda: LogisticRegression(max_iter=5000, class_weight="balanced", random_state=20260901),
    "tree_depth3": lambda: DecisionTreeClassifier(max_depth=3, class_weight="balanced", random_state=20260901),
}


def forest(trees=300):
    return RandomForestClassifier(trees, class_weight="balanced_subsample", random_state=20260901)


def by_hand(matrix, source, stratum, make_model):
    """Labels and predictions of each held-out stratum; preparation by NumPy."""
    for name in STRATA:
        train, test = matrix[stratum != name], matrix[stratum == name]
        medians = np.nanmedian(train, axis=0)
        train, test = (np.where(np.isnan(part), medians, part) for part in (train, test))
        mean, sd = train.mean(axis=0), train.std(axis=0)
        sd[sd == 0] = 1
        model = make_model().fit((train - mean) / sd, source[stratum != name])
        yield source[stratum == name], model.predict((test - mean) / sd)


def expected_scores(pairs):
    pairs = list(pairs)
    pooled = [np.concatenate(part) for part in zip(*pairs, strict=True)]
    accuracies = [balanced_accuracy_score(*pair) for pair in pairs]
    f1s = [f1_score(*pair, average="macro") for pair in pairs]
    return {
        "balanced_accuracy": balanced_accuracy_score(*pooled),
        "macro_f1": f1_score(*pooled, average="macro"),
        "balanced_accuracy_mean": np.mean(accuracies),
        "balanced_accuracy_sd": np.std(accuracies),
        "macro_f1_mean": np.mean(f1s),
        "macro_f1_sd": np.std(f1s),
    }


def arrays(table, columns=CLASSIFIER_FEATURES):
    return table[list(columns)].to_numpy(), table["source"].to_numpy(object), table["stratum"].to_numpy(object)


@pytest.fixture
def small_forest(monkeypatch):
    monkeypatch.setitem(MODELS, "random_forest", lambda: forest(10))


def test_the_models_are_the_published_ones():
    parameters = {name: make().get_params() for name, make in MODELS.items()}
    assert SEED == 20260901
    expected = {"random_forest": forest(), **{name: make() for name, make in INDEPENDENT.items()}}
    for name, model in expected.items():
        assert {**parameters[name], "n_jobs": None} == {**model.get_params(), "n_jobs": None}


def test_scores_equal_scikit_learn_fold_by_fold(small_forest):
    table = feature_table(distance=3)
    result = classify(table)
    assert list(result.columns) == separability.SCHEMA.names
    pooled = result[result["fold"] == "all"].set_index(["model", "inputs"])
    matrix, source, stratum = arrays(table)
    for name, make in {"random_forest": lambda: forest(10), **INDEPENDENT}.items():
        expected = expected_scores(by_hand(matrix, source, stratum, make))
        assert pooled.loc[(name, "values"), list(expected)].to_dict() == pytest.approx(expected, abs=1e-15)
        assert 0.4 < expected["balanced_accuracy"] < 1
    control = expected_scores(by_hand(np.isnan(matrix).astype(float), source, stratum, lambda: forest(10)))
    assert pooled.loc[("random_forest", "missingness"), list(control)].to_dict() == pytest.approx(control, abs=1e-15)
    assert (pooled["values_missing"] == np.isnan(matrix).sum()).all()
    assert (pooled["windows"] == len(table)).all()
    assert (pooled["folds"] == 3).all()
    first = result[(result["model"] == "tree_depth3") & (result["fold"] == "EARLY")].iloc[0]
    true, predicted = next(by_hand(matrix, source, stratum, INDEPENDENT["tree_depth3"]))
    assert first["balanced_accuracy"] == balanced_accuracy_score(true, predicted)


def test_missing_features_that_tell_the_source_apart_show_in_the_control(small_forest):
    table = feature_table(distance=0, missing=0)
    table.loc[table["source"] == "s1", "interarrival_cv"] = np.nan
    table.loc[table["source"] == "s2", "burstiness_b"] = np.nan
    result = classify(table).set_index(["inputs", "model", "fold"])
    assert result.loc[("missingness", "random_forest", "all"), "balanced_accuracy"] == 1


def test_the_order_of_windows_within_a_source_does_not_leak_through_the_strata():
    table = feature_table()
    parts = folds(*arrays(table)[1:])
    assert [part.stratum for part in parts] == list(STRATA)
    for part in parts:
        assert set(part.train) | set(part.test) == set(range(len(table)))
        assert not set(part.train) & set(part.test)
        assert set(table["stratum"].iloc[part.test]) == {part.stratum}


@pytest.mark.parametrize("analysis", [classify, attribute])
@pytest.mark.parametrize(
    "table",
    [
        feature_table(counts=(9,)),
        feature_table(counts=(1,)),
        feature_table(counts=(1, 1)),
        feature_table().assign(stratum="EARLY"),
        feature_table()[:0],
    ],
    ids=["one source", "one window", "one window a source", "one stratum", "nothing"],
)
def test_without_a_fold_scores_are_undefined(small_forest, analysis, table):
    result = analysis(table)
    assert (result["folds"] == 0).all()
    assert result[["balanced_accuracy", "macro_f1", "balanced_accuracy_sd"]].isna().all(axis=None)


def test_a_stratum_without_windows_is_no_fold(small_forest):
    table = feature_table()
    result = classify(table[table["stratum"] != "MIDDLE"])
    assert result[result["model"] == "random_forest"]["fold"].tolist() == ["all", "EARLY", "LATE"] * 2
    assert (result.loc[result["fold"] == "all", "folds"] == 2).all()


def test_constant_and_absent_features_decide_nothing(small_forest):
    table = feature_table().assign(interarrival_cv=3.0, burstiness_b=np.nan)
    table.loc[table["stratum"] != "LATE", "total_tokens_gini"] = np.nan  # held out as LATE, no training row has it
    classified = classify(table)
    assert classified["balanced_accuracy"].between(0, 1).all()
    result = attribute(table).set_index(["change", "item"])
    for name in ("interarrival_cv", "burstiness_b"):
        assert result.loc[("alone", name), "balanced_accuracy"] == pytest.approx(1 / 3)
        assert result.loc[("permuted", name), "fall"] == 0


def test_own_scores_equal_scikit_learn():
    rng = np.random.default_rng(3)
    for labels in (2, 5):
        true, predicted = rng.integers(0, labels, (2, 60))
        assert balanced_accuracy(true, predicted) == balanced_accuracy_score(true, predicted)
        assert macro_f1(true, predicted) == f1_score(true, predicted, average="macro")
    stacked = rng.integers(0, 3, (4, 7, 60))
    true = rng.integers(0, 3, 60)
    for found, predicted in zip(balanced_accuracy(true, stacked).ravel(), stacked.reshape(-1, 60), strict=True):
        assert found == balanced_accuracy_score(true, predicted)


@pytest.mark.parametrize("columns", [range(28), range(1, 28), range(3, 24), [4], [27, 0]])
def test_a_regrown_forest_predicts_what_scikit_learns_forest_predicts(columns):
    rng = np.random.default_rng(5)
    labels = np.repeat(["b", "c", "a"], [20, 35, 25])
    values, unseen = rng.normal(size=(80, 28)).round(1), rng.normal(size=(300, 28)).round(1)
    values[:, [0, 4]] += np.repeat([0, 1, 2], [20, 35, 25])[:, None]
    regrown = RegrownForest(forest(60).fit(values, labels), values, labels)
    expected = forest(60).fit(values[:, columns], labels).predict(unseen[:, columns])
    assert regrown.predict(columns, unseen).tolist() == expected.tolist()
    assert len(set(expected)) == 3


def test_drivers_equal_scikit_learn_change_by_change(small_forest):
    table = feature_table()
    result = attribute(table)
    assert list(result.columns) == separability_drivers.SCHEMA.names
    assert result["change"].value_counts(sort=False).to_dict() == {
        "none": 1,
        "permuted": 28,
        "alone": 28,
        "left_out": 28,
        "group_left_out": 4,
        "top2_left_out": 1,
    }
    assert result.loc[result["critical"], "item"].tolist()[:2] == ["long_prompt_fraction_8192", "total_tokens_mean"]
    top = result.loc[result["change"] == "top2_left_out", "item"].item().split(" + ")
    result = result.set_index(["change", "item"])
    _, source, stratum = arrays(table)
    whole = expected_scores(by_hand(arrays(table)[0], source, stratum, lambda: forest(10)))
    kept = {
        ("none", "all"): CLASSIFIER_FEATURES,
        ("alone", "interarrival_p99_s"): ["interarrival_p99_s"],
        ("alone", "total_tokens_gini"): ["total_tokens_gini"],
        ("left_out", "mean_arrival_rate_rps"): CLASSIFIER_FEATURES[1:],
        ("left_out", "total_tokens_gini"): CLASSIFIER_FEATURES[:-1],
        ("top2_left_out", " + ".join(top)): [name for name in CLASSIFIER_FEATURES if name not in top],
    }
    for name, group in CLASSIFIER_GROUPS.items():
        kept["group_left_out", name] = [feature for feature in CLASSIFIER_FEATURES if feature not in group]
    for key, columns in kept.items():
        row = result.loc[key]
        expected = expected_scores(by_hand(arrays(table, columns)[0], source, stratum, lambda: forest(10)))
        for name in ("balanced_accuracy", "macro_f1", "balanced_accuracy_mean", "balanced_accuracy_sd"):
            assert row[name] == pytest.approx(expected[name], abs=1e-15), (key, name)
        assert row["features"] == len(columns)
        assert row["fall"] == pytest.approx(whole["balanced_accuracy"] - expected["balanced_accuracy"], abs=1e-15)


def test_permutation_importance_is_scikit_learns(small_forest, monkeypatch):
    assert separability_drivers.REPEATS == 30
    monkeypatch.setattr(separability_drivers, "REPEATS", 6)
    table = feature_table()
    matrix, source, stratum = arrays(table)
    falls = []
    for name in STRATA:
        train, test = stratum != name, stratum == name
        model = make_pipeline(*preparation(), forest(10)).fit(matrix[train], source[train])
        falls.append(
            permutation_importance(
                model, matrix[test], source[test], scoring="balanced_accuracy", n_repeats=6, random_state=20260901
            ).importances
        )
    falls = np.array(falls)  # [fold, feature, repeat]
    result = attribute(table)
    permuted = result[result["change"] == "permuted"]
    assert permuted["fall"].to_numpy() == pytest.approx(falls.mean(axis=(0, 2)), abs=1e-15)
    assert permuted["folds_with_fall"].tolist() == (falls.mean(axis=2) > 0).sum(axis=0).tolist()
    assert permuted["fall"].max() > 0.05
    alone = result[result["change"] == "alone"]
    order = sorted(range(28), key=lambda n: (-permuted["fall"].iloc[n], -alone["balanced_accuracy"].iloc[n], n))
    top = " + ".join(CLASSIFIER_FEATURES[n] for n in order[:2])
    assert result.loc[result["change"] == "top2_left_out", "item"].item() == top
    assert math.isnan(permuted["macro_f1"].iloc[0])

"""Can a classifier tell from a window's features which source it comes from?

Source: the published study, src/robustbench/characterization. Three models predict the source. The windows of one
stratum are held out in turn, so that no model is judged on a period that it was fitted on; medians for missing values
and the z-score come from the training rows alone. Control: a random forest that sees only which features are missing.

A stratum is left out as a fold if it has no window, or if the other strata have windows of fewer than two sources.
Features, and how the corpus differs from the published one: servestudy.statistics.workload_features.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from servestudy.statistics import workload_features
from servestudy.statistics.workload_features import CLASSIFIER_FEATURES, STRATA
from servestudy.tables import column
from servestudy.windows.frozen import FrozenWindow

SEED = 20260901
ALL_FOLDS = "all"
MODELS = {
    "random_forest": lambda: RandomForestClassifier(
        n_estimators=300, class_weight="balanced_subsample", random_state=SEED, n_jobs=1
    ),
    "logistic_regression": lambda: LogisticRegression(max_iter=5000, class_weight="balanced", random_state=SEED),
    "tree_depth3": lambda: DecisionTreeClassifier(max_depth=3, class_weight="balanced", random_state=SEED),
}

SCHEMA = pa.schema(
    [
        column("model", pa.string(), "classifier"),
        column("inputs", pa.string(), "values: the 28 features; missingness: only which of them are missing (control)"),
        column("fold", pa.string(), "stratum held out, or all: the held-out predictions of all folds pooled"),
        column("sources", pa.int32(), "sources to tell apart"),
        column("folds", pa.int32(), "folds in this row"),
        column("windows", pa.int32(), "held-out windows in this row"),
        column("values_missing", pa.int32(), "their missing feature values"),
        column("balanced_accuracy", pa.float64(), "mean over the sources of the share recognised; NaN without a fold"),
        column("macro_f1", pa.float64(), "mean over the sources of F1"),
        column("balanced_accuracy_mean", pa.float64(), "mean over the folds in this row"),
        column("balanced_accuracy_sd", pa.float64(), "population standard deviation over them"),
        column("macro_f1_mean", pa.float64(), "mean over the folds in this row"),
        column("macro_f1_sd", pa.float64(), "population standard deviation over them"),
    ]
)


@dataclass(frozen=True)
class Fold:
    """Positions of the training and of the held-out rows."""

    stratum: str
    train: np.ndarray
    test: np.ndarray


def folds(source: np.ndarray, stratum: np.ndarray) -> list[Fold]:
    """One fold a stratum that has rows and leaves rows of two sources or more for training."""
    found = []
    for name in STRATA:
        train, test = np.flatnonzero(stratum != name), np.flatnonzero(stratum == name)
        if len(test) and len(np.unique(source[train])) >= 2:
            found.append(Fold(name, train, test))
    return found


def preparation() -> list:
    """Median imputation and z-score. A feature that no training row has becomes constant, so it decides nothing."""
    return [SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()]


def balanced_accuracy(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Mean over the labels in `true` of the share predicted right; `predicted` may have leading axes."""
    hits = predicted == true
    return np.mean([np.mean(hits[..., true == label], axis=-1) for label in np.unique(true)], axis=0)


def macro_f1(true: np.ndarray, predicted: np.ndarray) -> float:
    """Mean of the labels' F1; a label never predicted has 0."""
    return float(f1_score(true, predicted, average="macro", zero_division=0))


def scores(source: np.ndarray, held_out: Sequence[tuple[Fold, np.ndarray]]) -> dict[str, float]:
    """Pooled scores of the predictions for the held-out rows, mean and population sd over folds; NaN without a fold."""
    if not held_out:
        return dict.fromkeys(SCHEMA.names[-6:], np.nan)
    true = [source[fold.test] for fold, _ in held_out]
    predicted = [prediction for _, prediction in held_out]
    found = {}
    for name, score in (("balanced_accuracy", balanced_accuracy), ("macro_f1", macro_f1)):
        by_fold = [score(*pair) for pair in zip(true, predicted, strict=True)]
        found[name] = float(score(np.concatenate(true), np.concatenate(predicted)))
        found[f"{name}_mean"], found[f"{name}_sd"] = float(np.mean(by_fold)), float(np.std(by_fold))
    return found


def analyse(windows: Sequence[FrozenWindow], strata: dict[tuple[str, str], str]) -> pd.DataFrame:
    """Rows of SCHEMA; raises UserError as `workload_features.analyse` does."""
    return classify(workload_features.analyse(windows, strata))


def classify(features: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA, from rows of `workload_features.SCHEMA`."""
    source, stratum = features["source"].to_numpy(object), features["stratum"].to_numpy(object)
    values = features[list(CLASSIFIER_FEATURES)].to_numpy()
    missing = np.isnan(values)
    parts = folds(source, stratum)
    rows = []
    for model, inputs, matrix in (
        *((name, "values", values) for name in MODELS),
        ("random_forest", "missingness", missing.astype(float)),
    ):
        held_out = list(_predictions(MODELS[model], matrix, source, parts))
        for name, chosen in ((ALL_FOLDS, held_out), *((fold.stratum, [(fold, seen)]) for fold, seen in held_out)):
            tested = np.concatenate([fold.test for fold, _ in chosen]) if chosen else np.array([], int)
            rows.append(
                {
                    "model": model,
                    "inputs": inputs,
                    "fold": name,
                    "sources": len(np.unique(source)),
                    "folds": len(chosen),
                    "windows": len(tested),
                    "values_missing": int(missing[tested].sum()),
                    **scores(source, chosen),
                }
            )
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _predictions(
    make_model: Callable, matrix: np.ndarray, source: np.ndarray, parts: Sequence[Fold]
) -> Iterator[tuple[Fold, np.ndarray]]:
    for fold in parts:
        pipeline: Pipeline = make_pipeline(*preparation(), make_model())
        pipeline.fit(matrix[fold.train], source[fold.train])
        yield fold, pipeline.predict(matrix[fold.test])

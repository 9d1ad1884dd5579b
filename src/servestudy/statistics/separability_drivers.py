"""Which features tell the sources apart? Random forests with features permuted, alone, and left out.

Source: the published study, src/robustbench/characterization, with the folds of servestudy.statistics.separability:
permutation importance on the held-out stratum (30 repeats), each feature alone, each feature left out, each group left
out, and the critical ablations: the mean of total tokens; the share of prompts of 8,192 tokens; the two features with
the largest permutation importance (ties: the larger accuracy alone, then the order of the features).

All rows use the published forest: 300 trees, unlimited depth, balanced_subsample weights, one seed.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.pipeline import make_pipeline

from servestudy.statistics import workload_features
from servestudy.statistics.regrown_forest import RegrownForest
from servestudy.statistics.separability import MODELS, SEED, Fold, balanced_accuracy, folds, preparation, scores
from servestudy.statistics.workload_features import CLASSIFIER_FEATURES, CLASSIFIER_GROUPS
from servestudy.tables import column
from servestudy.windows.frozen import FrozenWindow

MODEL = "random_forest"
REPEATS = 30
CRITICAL = ("total_tokens_mean", "long_prompt_fraction_8192")

SCHEMA = pa.schema(
    [
        column("change", pa.string(), "none, permuted, alone, left_out, group_left_out or top2_left_out"),
        column("item", pa.string(), "the feature, group or pair of features changed; all: no change"),
        column("critical", pa.bool_(), "one of the study's critical ablations"),
        column("model", pa.string(), "classifier of this row"),
        column("features", pa.int32(), "features that it sees"),
        column("folds", pa.int32(), "folds: strata held out in turn"),
        column("balanced_accuracy", pa.float64(), "pooled over folds; permuted: mean over folds and repeats"),
        column("macro_f1", pa.float64(), "pooled over folds; NaN where permuted"),
        column("balanced_accuracy_mean", pa.float64(), "mean over folds"),
        column("balanced_accuracy_sd", pa.float64(), "population standard deviation over folds"),
        column("fall", pa.float64(), "balanced accuracy lost against no change; permuted: the permutation importance"),
        column("folds_with_fall", pa.int32(), "folds in which the (mean) loss is positive"),
    ]
)


class FoldForest:
    """A fold's forest and its predictions for the held-out windows; `values` is an array [window, feature]."""

    def __init__(self, values: np.ndarray, source: np.ndarray, fold: Fold) -> None:
        self.fold, self.test = fold, values[fold.test]
        self.prepare = make_pipeline(*preparation()).fit(values[fold.train])
        train, labels = self.prepare.transform(values[fold.train]), source[fold.train]
        self.forest = MODELS[MODEL]().fit(train, labels)
        self.regrown = RegrownForest(self.forest, train, labels)

    def predict(self, columns: Sequence[int]) -> np.ndarray:
        """Labels of the held-out windows, by the forest that is trained on these features only."""
        return self.regrown.predict(columns, self.prepare.transform(self.test))

    def predict_permuted(self) -> np.ndarray:
        """Labels [feature, repeat, held-out window] of the whole forest with one feature permuted.

        The permutations are those of sklearn.inspection.permutation_importance, the same for every feature. All are
        predicted at once: one by one, the calls would take a minute.
        """
        n_windows, n_features = self.test.shape
        seed = np.random.RandomState(SEED).randint(np.iinfo(np.int32).max + 1)
        rng, order = np.random.RandomState(seed), np.arange(n_windows)
        permuted, values = self.test, np.tile(self.test, (n_features, REPEATS, 1, 1))
        for repeat in range(REPEATS):
            rng.shuffle(order)
            permuted = permuted[order]  # each repeat permutes what the one before left
            for feature in range(n_features):
                values[feature, repeat, :, feature] = permuted[:, feature]
        labels = self.forest.predict(self.prepare.transform(values.reshape(-1, n_features)))
        return labels.reshape(n_features, REPEATS, n_windows)


def analyse(windows: Sequence[FrozenWindow], strata: dict[tuple[str, str], str]) -> pd.DataFrame:
    """Rows of SCHEMA; raises UserError as `workload_features.analyse` does."""
    return attribute(workload_features.analyse(windows, strata))


def attribute(features: pd.DataFrame) -> pd.DataFrame:
    """Rows of SCHEMA, from rows of `workload_features.SCHEMA`; scores are NaN where no fold can be fitted."""
    source = features["source"].to_numpy(object)
    values = features[list(CLASSIFIER_FEATURES)].to_numpy()
    forests = [FoldForest(values, source, fold) for fold in folds(source, features["stratum"].to_numpy(object))]
    everything = range(len(CLASSIFIER_FEATURES))
    full = _accuracies(source, [(forest.fold, forest.predict(everything)) for forest in forests])

    def row(change: str, item: str, columns: Sequence[int]) -> dict:
        held_out = [(forest.fold, forest.predict(columns)) for forest in forests]
        falls = int(np.sum(full > _accuracies(source, held_out)))
        shown = {"change": change, "item": item, "features": len(columns), "folds_with_fall": falls}
        return shown | scores(source, held_out)

    def without(names: Sequence[str]) -> list[int]:
        return [place for place in everything if CLASSIFIER_FEATURES[place] not in names]

    whole = row("none", "all", everything)
    permuted = _permuted_rows(source, forests, full)
    alone = [row("alone", name, [place]) for place, name in enumerate(CLASSIFIER_FEATURES)]
    left_out = [row("left_out", name, without([name])) for name in CLASSIFIER_FEATURES]
    groups = [row("group_left_out", name, without(group)) for name, group in CLASSIFIER_GROUPS.items()]
    leading = np.lexsort([[-found["balanced_accuracy"] for found in alone], [-found["fall"] for found in permuted]])
    top = [CLASSIFIER_FEATURES[place] for place in leading[:2]]
    top_left_out = row("top2_left_out", " + ".join(top), without(top))

    table = pd.DataFrame([whole, *permuted, *alone, *left_out, *groups, top_left_out])
    is_critical = (table["change"] == "left_out") & table["item"].isin(CRITICAL)
    lost = whole["balanced_accuracy"] - table["balanced_accuracy"]
    return table.assign(
        critical=is_critical | (table["change"] == "top2_left_out"),
        fall=table["fall"].where(table["change"] == "permuted", lost),
        model=MODEL,
        folds=len(forests),
    )[SCHEMA.names]


def _accuracies(source: np.ndarray, held_out: Sequence[tuple[Fold, np.ndarray]]) -> np.ndarray:
    return np.array([balanced_accuracy(source[fold.test], labels) for fold, labels in held_out])


def _permuted_rows(source: np.ndarray, forests: Sequence[FoldForest], full: np.ndarray) -> list[dict]:
    """One row a feature: its values permuted among the held-out windows."""
    shape = (len(forests), len(CLASSIFIER_FEATURES), REPEATS)
    accuracies = _accuracies(source, [(forest.fold, forest.predict_permuted()) for forest in forests]).reshape(shape)
    rows = []
    for name, accuracy in zip(CLASSIFIER_FEATURES, accuracies.swapaxes(0, 1), strict=True):  # [fold, repeat]
        by_fold, falls = accuracy.mean(axis=1), full[:, None] - accuracy
        rows.append(
            {
                "change": "permuted",
                "item": name,
                "features": len(CLASSIFIER_FEATURES),
                "balanced_accuracy": _mean(accuracy),
                "macro_f1": np.nan,
                "balanced_accuracy_mean": _mean(by_fold),
                "balanced_accuracy_sd": float(np.std(by_fold)) if len(by_fold) else np.nan,
                "fall": _mean(falls),
                "folds_with_fall": int(np.sum(falls.mean(axis=1) > 0)),
            }
        )
    return rows


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if values.size else np.nan

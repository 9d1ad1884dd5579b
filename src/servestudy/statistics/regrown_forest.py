"""A random forest, and the same forest on other columns of the same rows, much faster.

Another set of columns changes neither the seeds of the trees nor their bootstrap draws and weights, so these are taken
from a forest that scikit-learn has fitted; and the trees are grown by scikit-learn's own builder without the checks of
its input, which take four fifths of the time where there are 80 rows. The builder is not part of scikit-learn's public
interface: the tests compare predictions with RandomForestClassifier's, and the version is fixed.
"""

from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree._criterion import Gini
from sklearn.tree._splitter import BestSplitter
from sklearn.tree._tree import DepthFirstTreeBuilder, Tree
from sklearn.utils.class_weight import compute_sample_weight


class RegrownForest:
    """Forests of unlimited depth with `balanced_subsample` weights, all with the draws of `forest`.

    `forest` was fitted on `values`, a float array [row, column], and `labels`.
    """

    def __init__(self, forest: RandomForestClassifier, values: np.ndarray, labels: np.ndarray) -> None:
        self.values = values.astype(np.float32)  # trees compare 32-bit values
        self.classes = forest.classes_
        self.codes = np.searchsorted(self.classes, labels)[:, None].astype(float)
        self.draws = [
            (
                tree.random_state,
                np.bincount(rows, minlength=len(labels)) * compute_sample_weight("balanced", labels, indices=rows),
            )
            for tree, rows in zip(forest.estimators_, forest.estimators_samples_, strict=True)
        ]

    def predict(self, columns: Sequence[int], values: np.ndarray) -> np.ndarray:
        """Labels of the rows of `values` by the forest that sees only these columns, of its training rows as well."""
        train = np.ascontiguousarray(self.values[:, columns])
        seen = np.ascontiguousarray(values[:, columns], dtype=np.float32)
        votes = np.zeros((len(seen), len(self.classes)))
        for seed, weights in self.draws:
            votes += self._grow(train, weights, seed).predict(seen)
        return self.classes[np.argmax(votes / len(self.draws), axis=1)]

    def _grow(self, train: np.ndarray, weights: np.ndarray, seed: int) -> Tree:
        n_columns, n_classes = train.shape[1], np.array([len(self.classes)], dtype=np.intp)
        tried = max(1, int(np.sqrt(n_columns)))
        splitter = BestSplitter(Gini(1, n_classes), tried, 1, 0.0, np.random.RandomState(seed), None)
        tree = Tree(n_columns, n_classes, 1)
        DepthFirstTreeBuilder(splitter, 2, 1, 0.0, np.iinfo(np.int32).max, 0.0).build(
            tree, train, self.codes, weights, None
        )
        return tree

"""The blend as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from screening.machines.blended import BlendedEnsemble, standards
from screening.machines.fold_ensemble import FoldEnsemble


class BlendedClassifier(ClassifierMixin, BaseEstimator):
    """The blend as an estimator: every member fitted on folds at its own parameters, two classes.

    Parameters
    ----------
    members : tuple of estimators
        Classifiers with ``decision_function``, and outlier detectors, which learn from the first class alone.
    folds : int, >= 2
        Fewer where the rarer class has fewer rows.
    seed : int
    """

    def __init__(self, members: tuple[Any, ...] = (), folds: int = 5, seed: int = 0) -> None:
        self.members = members
        self.folds = folds
        self.seed = seed

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        if self.folds < 2:
            raise ValueError(f"folds must be >= 2, got {self.folds!r}")

    def fit(self, X: ArrayLike, y: ArrayLike) -> BlendedClassifier:
        """Fit to labelled rows, X (n_rows, n_features), y (n_rows,) of two classes."""
        x, answers = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(answers)
        self.check_parameters()
        self.classes_, codes = np.unique(answers, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        if len(self.classes_) < 2:
            raise ValueError("the labels hold 1 class; there must be at least 2 classes")
        folds = min(self.folds, int(np.bincount(codes).min()))
        if folds < 2:
            raise ValueError("the rarer class has one row: nothing is left to standardise scores by")
        splits = list(StratifiedKFold(folds, shuffle=True, random_state=self.seed).split(x, codes))
        fitted, centres, scales = [], [], []
        for member in self.members:
            kind = getattr(member, "kind", "baseline")
            held_out = np.zeros((len(x), 1))
            machines = []
            for train, test in splits:
                rows = train[codes[train] == 0] if kind == "one_class" else train
                machines.append(clone(member).fit(x[rows], codes[rows]))
                held_out[test] = FoldEnsemble(machines[-1:], kind, 2).decisions(x[test])
            centre, scale = standards(held_out)
            fitted.append(FoldEnsemble(machines, kind, 2))
            centres.append(centre)
            scales.append(scale)
        self.ensemble_ = BlendedEnsemble(fitted, np.array(centres), np.array(scales))
        return self

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Mean standardised decision, (n_rows,); higher is the second of ``classes_``."""
        check_is_fitted(self)
        return self.ensemble_.decisions(validate_data(self, X, reset=False, dtype=np.float64))[:, 0]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        decisions = self.decision_function(X)
        return self.classes_[(decisions > 0).astype(int)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

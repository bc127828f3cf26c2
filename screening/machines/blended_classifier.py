"""The blend as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from screening.machines.blended import BlendedEnsemble, standards
from screening.machines.classifier import Classifier
from screening.machines.fold_ensemble import FoldEnsemble


class BlendedClassifier(Classifier):
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

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        if len(self.classes_) > 2:  # in scikit-learn's words, which its checks look for
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
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

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Mean standardised decision, (n_rows,); higher is the second of ``classes_``."""
        check_is_fitted(self)
        return self.ensemble_.decisions(self._rows(X))[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

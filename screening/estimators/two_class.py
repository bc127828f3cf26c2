"""Two-class machine: C-SVC, with remedies for imbalance wrapped around it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from screening.estimators import landmarks
from screening.estimators.kernel_machine import Fit, KernelClassifier, Rows
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion, PassProblem, fit_passes
from screening.estimators.training import Training, solve_two_class
from screening.factors.first_pass import DualSolution, Factor
from screening.kernels.base import Kernel
from screening.kernels.expansions import expansion_at
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import gram_within
from screening.solvers.kernel_rows import Gram, KernelRows


@dataclass(kw_only=True, eq=False, repr=False)
class TwoClassSVM(KernelClassifier):
    """Two-class SVM (Cortes and Vapnik 1995), trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    {of_all}
    {of_classifiers}
    remedies : sequence of remedies
        Applied in this order, the first outermost (see ``screening.estimators.remedies``).

    Notes
    -----
    ``classes_`` is sorted; its second member is the positive class: higher ``decision_function``. Sparse X is
    refused (TypeError): every method here measures distances between dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> from screening import TwoClassSVM
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> machine = TwoClassSVM(gamma=0.5, class_weight="balanced").fit(X, X[:, 0] > 1)
    >>> machine.predict([[2.0, 0.0], [-1.0, 0.0]])
    array([ True, False])
    """

    remedies: Any = ()

    name: ClassVar[str] = "two_class"

    @property
    def most_rows(self) -> int:
        return (
            landmarks.MOST_SPANNED if self.approximation == "nystroem" else sys.maxsize
        )

    @property
    def by_rows(self) -> bool:
        return not any(remedy.whole_matrix for remedy in self.remedies)

    def _check_classes(self, n_classes: int) -> None:
        if n_classes > 2:  # in scikit-learn's words, which its checks look for
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass."
            )
        if n_classes < 2:
            raise ValueError(
                "TwoClassSVM needs rows of 2 classes; the labels hold one class only"
            )

    def _near_boundary(
        self, kernel: Kernel, whole: Rows, first: Landmarks
    ) -> np.ndarray:
        labels = np.where(whole.codes == 1, 1, -1).astype(np.int8)
        x, costs = (
            np.ascontiguousarray(whole.x[first.rows]),
            float(self.C) * first.weights,
        )
        dual = solve_two_class(
            Training(kernel(x, x), labels[first.rows], np.ones(len(x)), costs, self.tol)
        )
        decisions = (
            expansion_at(kernel, whole.x, x, dual.weights)[:, 0] + dual.intercept[0]
        )
        return labels * decisions < landmarks.NEAR_MARGIN

    def _trained(
        self, factors: Sequence[Factor | None], fit: Fit
    ) -> list[KernelExpansion]:
        rows, cache = fit.rows, fit.cache
        x, codes = rows.x, rows.codes
        for remedy in self.remedies:
            x, codes = remedy.resample(x, codes)
        resampled = len(x) > len(rows.x)
        if resampled:
            cache = KernelCache(x, cache.memory)
        spanned = self.approximation == "nystroem" and self.n_landmarks < len(x)
        gram: Gram = (
            KernelRows(x, fit.kernel)
            if spanned
            else gram_within(
                fit.kernel, cache, fit.n_passes + 1, whole=not self.by_rows
            )
        )
        labels = np.where(codes == 1, 1, -1).astype(np.int8)
        # A row that a remedy made counts as those do that it was made from.
        made = np.full(len(x) - len(rows.x), rows.weights[rows.codes == 1].mean())
        costs = float(self.C) * np.concatenate([rows.weights, made])
        of_class = (
            np.ones(2)
            if rows.class_weight is None
            else np.array([*rows.class_weight.values()])
        )
        training = Training(
            gram=gram,
            labels=labels,
            c=np.ones(len(x)),
            costs=costs,
            tol=self._tol(len(x)),
            # Rows a remedy made belong to nobody: nothing inside can tell them from their parents' group.
            groups=None if resampled else rows.groups,
            counts=costs / (float(self.C) * of_class[codes]),
            cache=cache,
        )
        solve_pass = solve_two_class
        if spanned:
            spread = landmarks.spread(x, codes, int(self.n_landmarks), self._seed)
            solve_pass = partial(landmarks.solve_on_landmarks, rows=spread.rows)
        for remedy in reversed(self.remedies):
            solve_pass = partial(remedy.solve, solve=solve_pass)

        def solve(factors: Sequence[np.ndarray]) -> list[DualSolution]:
            return [solve_pass(replace(training, c=c[:, 0])) for c in factors]

        if resampled or rows is not fit.whole:
            class_counts = np.bincount(codes, minlength=2)
        else:
            class_counts = rows.per_class
        solve_key = None
        if not (self.remedies or spanned):
            solve_key = labels.tobytes(), costs.tobytes(), training.tol
        problem = PassProblem(
            cache, fit.kernel, gram, labels[:, None], class_counts, solve, solve_key
        )
        machines = fit_passes(problem, factors, fit.n_passes, self.normalise)
        for remedy in self.remedies:
            others = tuple(other for other in self.remedies if other is not remedy)
            rest = clone(self).set_params(
                kernel=fit.kernel,
                gamma="scale",
                remedies=others,
                passes=fit.n_passes,
                stop="fixed",
                class_weight=fit.whole.class_weight,
            )
            threshold = remedy.threshold(rest, fit.whole, cache.memory)
            machines = [passes.moved(threshold) for passes in machines]
        # Rows that were made have the numbers of no training rows.
        return machines if resampled else fit.numbered(machines)

    @property
    def pruning_path_(self) -> np.ndarray:
        """Support vectors removed, in order, (n_removed, 4): row number, J, class-1 accuracy, class-2 error.

        Of the last pass; only where the remedies include pruning.
        """
        check_is_fitted(self)
        noted = self._passes.last.dual.noted
        if "pruning_path" not in noted:
            raise AttributeError(
                "there is no pruning_path_: the machine has no pruning remedy"
            )
        return noted["pruning_path"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

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
from screening.estimators.kernel_machine import (
    FitInputs,
    KernelClassifier,
    TrainingRows,
)
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion, PassProblem, fit_passes
from screening.estimators.training import SolveTraining, Training, solve_two_class
from screening.factors.first_pass import DualSolution, Factor
from screening.kernels.base import Kernel
from screening.kernels.expansions import expansion_at
from screening.kernels.kernel_cache import KernelCache
from screening.solvers import Gram, KernelRows, gram_within


@dataclass(kw_only=True, eq=False, repr=False)
class TwoClassSVM(KernelClassifier):
    """Two-class SVM (Cortes and Vapnik 1995), trained again on the rescaled kernel.

    Without a factor it is trained once.

    Parameters
    ----------
    kernel : {"gaussian", "rbf", "laplacian"}, Gaussian or Laplacian, optional
        "gaussian" if None; "rbf" means the same. A Kernel value has its own gamma.
    gamma : float > 0, "scale" or "scale*F"
        Rate of a kernel that is given by name.
    factor : Factor, optional
        Conformal factor, such as ``screening.factors.MarginDecay(kappa=0.5)``; None for
        the plain machine.
    passes : int, >= 0
        Number of rescalings; without a factor it has no effect.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of
        ``solvers.Problem.unit``: the margin or, if that is smaller or undefined, the
        change that one row at its bound makes.
    approximation : {"none", "landmarks", "nystroem"}
        "landmarks" trains on ``n_landmarks`` rows, each with the cost of the rows it
        represents; "nystroem", without a factor, trains on all rows in the span of that
        many (see ``estimators.landmarks``). Exact if there are no more rows than that.
    n_landmarks : int, >= 2
        Number of landmarks.
    random_state : int, RandomState or None
        Draws the landmarks and the inner folds of ``stop``.
    C : float, > 0
        Cost of a row on the wrong side.
    normalise : bool
        Divide each factor by its root mean square over the training rows, so that it
        does not act like a change of C.
    stop : {"fixed", "inner"}
        "inner" trains another pass, up to ``passes``, only while it increases the
        geometric mean of recalls on inner folds.
    class_weight : dict or "balanced", optional
        Multiplies C for the rows of a class; "balanced" is
        n_rows / (n_classes * rows of the class).
    remedies : sequence of remedies
        Applied in this order, the first outermost (see
        ``screening.estimators.remedies``).

    Notes
    -----
    ``classes_`` is sorted; its second member is the positive class, which has the
    higher ``decision_function``. Sparse X raises TypeError: every method here measures
    distances between dense rows.

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
    def max_rows(self) -> int:
        """Largest number of training rows."""
        if self.approximation == "nystroem":
            return landmarks.MAX_NYSTROEM_ROWS
        return sys.maxsize

    @property
    def by_rows(self) -> bool:
        """True if a fit needs only some rows of the kernel matrix, never all of it."""
        return not any(remedy.whole_matrix for remedy in self.remedies)

    def _check_classes(self, n_classes: int) -> None:
        if n_classes > 2:
            # scikit-learn's checks look for these words.
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                "multiclass."
            )
        if n_classes < 2:
            raise ValueError(
                "TwoClassSVM needs rows of 2 classes; the labels contain one class only"
            )

    def _near_boundary(
        self, kernel: Kernel, whole: TrainingRows, first: Landmarks
    ) -> np.ndarray:
        labels = _signs(whole.codes)
        x = np.ascontiguousarray(whole.x[first.rows])
        costs = float(self.C) * first.weights
        pilot = Training(
            gram=kernel(x, x),
            labels=labels[first.rows],
            c=np.ones(len(x)),
            costs=costs,
            tol=self.tol,
        )
        dual = solve_two_class(pilot)
        sums = expansion_at(kernel, whole.x, x, dual.weights)[:, 0]
        return labels * (sums + dual.intercept[0]) < landmarks.NEAR_MARGIN

    def _train(
        self, factors: Sequence[Factor | None], inputs: FitInputs
    ) -> list[KernelExpansion]:
        rows = inputs.rows
        cache = inputs.cache
        x, codes = self._resample(rows)
        resampled = len(x) > len(rows.x)
        if resampled:
            cache = KernelCache(x, cache.memory)
        uses_nystroem = self.approximation == "nystroem" and self.n_landmarks < len(x)
        if uses_nystroem:
            gram: Gram = KernelRows(x, inputs.kernel)
        else:
            gram = gram_within(
                inputs.kernel, cache, inputs.n_rescalings + 1, whole=not self.by_rows
            )
        training = self._training(rows, gram, codes, cache)
        solve_one = self._solver(x, codes, uses_nystroem)

        def solve(c_of_passes: Sequence[np.ndarray]) -> list[DualSolution]:
            return [solve_one(replace(training, c=c[:, 0])) for c in c_of_passes]

        class_counts = rows.per_class
        if resampled or rows is not inputs.whole:
            class_counts = np.bincount(codes, minlength=2)
        solve_key = None
        if not (self.remedies or uses_nystroem):
            solve_key = (
                training.labels.tobytes(),
                training.costs.tobytes(),
                training.tol,
            )
        problem = PassProblem(
            cache=cache,
            kernel=inputs.kernel,
            gram=gram,
            labels=training.labels[:, None],
            class_counts=class_counts,
            solve=solve,
            solve_key=solve_key,
        )
        expansions = fit_passes(problem, factors, inputs.n_rescalings, self.normalise)
        expansions = self._move_thresholds(expansions, inputs, cache.memory)
        # Synthetic rows have no row numbers of the training table.
        return expansions if resampled else inputs.with_row_numbers(expansions)

    def _resample(self, rows: TrainingRows) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and class numbers after all remedies, synthetic rows last."""
        x = rows.x
        codes = rows.codes
        for remedy in self.remedies:
            x, codes = remedy.resample(x, codes)
        return x, codes

    def _training(
        self, rows: TrainingRows, gram: Gram, codes: np.ndarray, cache: KernelCache
    ) -> Training:
        """Return the problem of one pass, for c = 1."""
        # A synthetic row counts as much as the rows that it was made from.
        n_synthetic = len(codes) - len(rows.x)
        mean_weight = rows.weights[rows.codes == 1].mean()
        synthetic = np.full(n_synthetic, mean_weight)
        costs = float(self.C) * np.concatenate([rows.weights, synthetic])
        class_weight = np.ones(2)
        if rows.class_weight is not None:
            class_weight = np.array([*rows.class_weight.values()])
        # A synthetic row has no group of its own, and inner folds could not keep it
        # with those of its parents.
        groups = None if n_synthetic else rows.groups
        return Training(
            gram=gram,
            labels=_signs(codes),
            c=np.ones(len(codes)),
            costs=costs,
            tol=self._tol(len(codes)),
            groups=groups,
            counts=costs / (float(self.C) * class_weight[codes]),
            cache=cache,
        )

    def _solver(
        self, x: np.ndarray, codes: np.ndarray, uses_nystroem: bool
    ) -> SolveTraining:
        """Return the solver of one pass, wrapped in the remedies."""
        solve: SolveTraining = solve_two_class
        if uses_nystroem:
            chosen = landmarks.spread(x, codes, int(self.n_landmarks), self._seed)
            solve = partial(landmarks.solve_on_landmarks, rows=chosen.rows)
        for remedy in reversed(self.remedies):
            solve = partial(remedy.solve, solve=solve)
        return solve

    def _move_thresholds(
        self, expansions: list[KernelExpansion], inputs: FitInputs, memory: int
    ) -> list[KernelExpansion]:
        """Subtract the thresholds that remedies choose from the decisions."""
        for remedy in self.remedies:
            others = tuple([other for other in self.remedies if other is not remedy])
            machine = clone(self).set_params(
                kernel=inputs.kernel,
                gamma="scale",
                remedies=others,
                passes=inputs.n_rescalings,
                stop="fixed",
                class_weight=inputs.whole.class_weight,
            )
            threshold = remedy.threshold(machine, inputs.whole, memory)
            expansions = [expansion.moved(threshold) for expansion in expansions]
        return expansions

    @property
    def pruning_path_(self) -> np.ndarray:
        """Support vectors that pruning removed from the last pass, in order.

        Shape (n_removed, 4): row number, J, minority accuracy, majority error.
        AttributeError without a pruning remedy.
        """
        check_is_fitted(self)
        noted = self._expansion.last.dual.noted
        if "pruning_path" not in noted:
            raise AttributeError(
                "pruning_path_ does not exist: the machine has no pruning remedy"
            )
        return noted["pruning_path"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _signs(codes: np.ndarray) -> np.ndarray:
    """Return +1 for class number 1 and -1 for class number 0."""
    return np.where(codes == 1, 1, -1).astype(np.int8)

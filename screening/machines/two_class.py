"""Two-class machine: C-SVC, with remedies for imbalance wrapped around it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from screening import solvers
from screening.factors.base import Factor
from screening.kernels.base import Kernel
from screening.machines import landmarks
from screening.machines.base import KernelMachine, check_labels, classes_and_codes
from screening.machines.kernel_sums import Basis
from screening.machines.nystroem import MOST_SPANNED, solve_on_landmarks
from screening.machines.passes import fit_passes
from screening.machines.sample_weight import ClassWeight, resolve_sample_weight
from screening.machines.training import Dual, Training, solve_two_class
from screening.solvers.kernel_rows import Gram, KernelRows


class TwoClassSVM(ClassifierMixin, KernelMachine):
    """Two-class SVM (Cortes and Vapnik 1995), trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    kernel : {"gaussian", "rbf", "laplacian"}, Gaussian or Laplacian, optional
        "gaussian" if None; "rbf" is another word for it. A value has its own gamma.
    C : float, > 0
        Cost of a row on the wrong side.
    factor : Factor, optional
        What c is, such as ``screening.factors.MarginDecay(kappa=0.5)``; the plain machine if None.
    passes : int, >= 0
        Number of rescalings; without a factor it has no effect.
    remedies : sequence of remedies
        Applied in this order, the first outermost (see ``screening.remedies``).
    normalise : bool
        Divide each factor by its root mean square over the training rows, so that it does not act on C.
    stop : {"fixed", "inner"}
        "inner" trains another pass only while it gains on inner folds (G-mean), ``passes`` at most.
    random_state : int, RandomState or None
        Of those folds, and of landmarks.
    tol : float, > 0
        Largest violation of the optimality conditions, in units of the margin or, where that is less, of the
        change that one row at its bound makes.
    approximation : {"none", "landmarks", "nystroem"}
        "landmarks" trains on ``n_landmarks`` rows that stand for all, each with the cost of those it stands
        for (see ``machines.landmarks``); "nystroem", without a factor, on all rows in the span of so many of
        them (see ``machines.nystroem``); exact where there are no more rows than that.
    n_landmarks : int, >= 2
        Rows that stand for all, or span.
    gamma : float > 0, "scale" or "scale*F"
        Of a kernel given by name.
    class_weight : dict or "balanced", optional
        Times C for the rows of a class; "balanced" is n_rows / (n_classes * rows of the class).

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

    kind = "two_class"

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        C: float = 1.0,
        factor: Factor | None = None,
        passes: int = 1,
        remedies: Any = (),
        normalise: bool = False,
        stop: str = "fixed",
        random_state: int | np.random.RandomState | None = 0,
        tol: float = 1e-3,
        approximation: str = "none",
        n_landmarks: int = 8000,
        gamma: float | str = "scale",
        class_weight: ClassWeight = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.factor = factor
        self.passes = passes
        self.remedies = remedies
        self.normalise = normalise
        self.stop = stop
        self.random_state = random_state
        self.tol = tol
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.gamma = gamma
        self.class_weight = class_weight

    @property
    def most_rows(self) -> int:
        return MOST_SPANNED if self.approximation == "nystroem" else sys.maxsize

    @property
    def by_rows(self) -> bool:
        return not any(remedy.whole_matrix for remedy in self.remedies)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> TwoClassSVM:
        """Fit to labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Two distinct labels.
        sample_weight : array-like of shape (n_rows,), optional
            Times C for each row: as if it stood there so many times. Folds inside a remedy count rows once.
        groups : array-like of shape (n_rows,), optional
            What remedies that validate inside must not split.
        """
        given, answers = self._learned(X, y)
        check_labels(answers)
        self.check_parameters()
        self.classes_, codes = classes_and_codes(answers)
        if len(self.classes_) > 2:  # in scikit-learn's words, which its checks look for
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        if len(self.classes_) < 2:
            raise ValueError("TwoClassSVM needs rows of 2 classes; the labels hold one class only")

        counted = resolve_sample_weight(
            sample_weight,
            given,
            codes,
            self.class_weight,
            self.classes_,
            bool(self._n_passes or self.remedies),
        )  # fmt: skip
        whole, all_codes = np.ascontiguousarray(counted.of(given)), counted.of(codes)
        all_units = None if groups is None else counted.of(np.asarray(groups))
        kernel = self._kernel.resolved(whole, counted.given)
        n_passes = self._passes_wanted(whole, all_codes, all_units, counted.class_weight)
        x, codes, units, weights = whole, all_codes, all_units, counted.weights
        spanned = self.approximation == "nystroem" and self.n_landmarks < len(x)
        chosen = self._landmarks(kernel, whole, codes)
        if chosen is not None:
            x, codes, weights = whole[chosen.rows], codes[chosen.rows], weights[chosen.rows] * chosen.weights
            units = None if units is None else units[chosen.rows]
        n_given = len(x)
        for remedy in self.remedies:
            x, codes = remedy.resample(x, codes)
        # Rows a remedy made belong to nobody, so that nothing inside can tell them from their parents' group.
        inside = units if len(x) == n_given else None
        gram: Gram = (
            KernelRows(kernel=kernel, x=x)
            if spanned
            else solvers.gram_within(kernel, x, n_passes + 1, whole=not self.by_rows)
        )
        labels = np.where(codes == 1, 1, -1).astype(np.int8)
        # A row that a remedy made counts as those do that it was made from.
        made = np.full(len(x) - n_given, weights[codes[:n_given] == 1].mean())
        costs = float(self.C) * np.concatenate([weights, made])
        counts = costs / (float(self.C) * counted.of_class(codes))
        solve_pass = solve_two_class
        if spanned:
            solve_pass = partial(
                solve_on_landmarks, rows=landmarks.spread(x, codes, int(self.n_landmarks), self._seed).rows
            )
        for remedy in reversed(self.remedies):
            solve_pass = partial(remedy.solve, solve=solve_pass)

        def solve(factors: Sequence[np.ndarray]) -> list[Dual]:
            return [
                solve_pass(Training(gram, labels, c[:, 0], costs, self._tol(len(x)), inside, counts))
                for c in factors
            ]

        (passes,) = fit_passes(
            kernel,
            x,
            gram,
            labels[:, None],
            counted.per_class(2) if len(x) == n_given and chosen is None else np.bincount(codes, minlength=2),
            solve,
            [self.factor],
            n_passes,
            self.normalise,
            name=None if self.remedies or spanned else (labels.tobytes(), costs.tobytes(), self._tol(len(x))),
        )
        for remedy in self.remedies:
            others = tuple(other for other in self.remedies if other is not remedy)
            rest = clone(self).with_kernel(kernel)
            rest.set_params(remedies=others, passes=n_passes, stop="fixed", class_weight=counted.class_weight)
            passes = passes.moved(remedy.threshold(rest, whole, all_codes, all_units))
        if len(x) == n_given:
            rows = counted.rows if chosen is None else counted.rows[chosen.rows]
            passes = replace(passes, support=rows[passes.support])
        self._keep(passes)
        return self

    def _landmarks(self, kernel: Kernel, x: np.ndarray, codes: np.ndarray) -> landmarks.Landmarks | None:
        """The rows to train on; None for all of them."""
        if self.approximation != "landmarks" or self.n_landmarks >= len(x):
            return None
        labels = np.where(codes == 1, 1, -1).astype(np.int8)

        def near(first: landmarks.Landmarks) -> np.ndarray:
            rows = np.ascontiguousarray(x[first.rows])
            costs = float(self.C) * first.weights
            dual = solve_two_class(
                Training(kernel(rows, rows), labels[first.rows], np.ones(len(rows)), costs, self.tol)
            )
            decisions = Basis(kernel, rows).times(x, dual.weights)[:, 0] + dual.intercept[0]
            return labels * decisions < landmarks.NEAR_MARGIN

        return landmarks.choose(x, codes, int(self.n_landmarks), near, self._seed)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Labels out of ``classes_``, (n_rows,)."""
        decisions = self.decision_function(X)
        return self.classes_[(decisions > 0).astype(int)]

    @property
    def pruning_path_(self) -> np.ndarray:
        """Support vectors removed, in order, (n_removed, 4): row number, J, class-1 accuracy, class-2 error.

        Of the last pass; only where the remedies include pruning.
        """
        check_is_fitted(self)
        noted = self._passes.last.dual.noted
        if "pruning_path" not in noted:
            raise AttributeError("there is no pruning_path_: the machine has no pruning remedy")
        return noted["pruning_path"]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

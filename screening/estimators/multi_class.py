"""Multi-class machine over a scheme: which decision functions there are and how they are solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from screening.estimators import landmarks
from screening.estimators.kernel_machine import Fit, KernelClassifier, Rows
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion, PassProblem, fit_passes
from screening.estimators.schemes import SCHEMES, OneVsRest
from screening.factors.first_pass import Factor
from screening.kernels.base import Kernel
from screening.kernels.expansions import expansion_at
from screening.solvers import gram_within


@dataclass(kw_only=True, eq=False, repr=False)
class MultiClassSVM(KernelClassifier):
    """Multi-class SVM, trained again with the rescaled kernel where there is a factor.

    Parameters
    ----------
    {of_all}
    {of_classifiers}
    scheme : {"one_vs_rest", "one_vs_one", "crammer_singer", "simplified"}
        One decision function a class, one a pair of classes (votes), or all classes in one problem.
    cost_ratio : float > 0 or "balanced"
        Of a machine's positive rows to its negative rows; "balanced" is the inverse ratio of their numbers.
        One problem for all classes has no positive rows: "balanced" weighs each class by its inverse number
        there, and a ratio is for "one_vs_rest" only.

    Notes
    -----
    Sparse X is refused (TypeError): every method here measures distances between dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> from screening import MultiClassSVM
    >>> middles = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], 20, axis=0)
    >>> X = middles + np.random.default_rng(0).normal(size=(60, 2))
    >>> machine = MultiClassSVM(gamma=0.5).fit(X, np.repeat(["bone", "lesion", "zone"], 20))
    >>> machine.predict([[4.0, 0.0], [0.0, 4.0]])
    array(['lesion', 'zone'], dtype='<U6')
    """

    scheme: str = "one_vs_rest"
    cost_ratio: float | str = 1.0

    name: ClassVar[str] = "multi_class"

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.scheme not in SCHEMES:
            raise ValueError(
                f"scheme must be one of {', '.join(SCHEMES)}, got {self.scheme!r}"
            )
        if self.cost_ratio != "balanced" and (
            isinstance(self.cost_ratio, str) or not self.cost_ratio > 0
        ):
            raise ValueError(
                f"cost_ratio must be > 0 or 'balanced', got {self.cost_ratio!r}"
            )
        if self.scheme != "one_vs_rest" and self.cost_ratio not in (1.0, "balanced"):
            raise ValueError(
                f"cost_ratio {self.cost_ratio!r} needs scheme one_vs_rest, not {self.scheme}; 'balanced' fits"
            )

    @property
    def by_rows(self) -> bool:
        return self.scheme in (
            "one_vs_rest",
            "one_vs_one",
        )  # the others solve for all classes at once

    def _check_classes(self, n_classes: int) -> None:
        if n_classes < 2:
            raise ValueError(
                "MultiClassSVM needs rows of 2 classes or more; the labels hold one class only"
            )

    def _near_boundary(
        self, kernel: Kernel, whole: Rows, first: Landmarks
    ) -> np.ndarray:
        """Rows close to any of the boundaries."""
        x = np.ascontiguousarray(whole.x[first.rows])
        pilot = self._scheme(whole.codes[first.rows], first.weights)
        (dual,) = pilot.solve(kernel(x, x), [np.ones((len(x), 1))])
        decisions = expansion_at(kernel, whole.x, x, dual.weights) + dual.intercept
        of_all = self._scheme(whole.codes, np.ones(len(whole.x)))
        return of_all.margins(decisions) < landmarks.NEAR_MARGIN

    def _trained(
        self, factors: Sequence[Factor | None], fit: Fit
    ) -> list[KernelExpansion]:
        cache, rows = fit.cache, fit.rows
        n_solutions = (fit.n_passes + 1) * len(self.classes_)
        gram = (
            gram_within(fit.kernel, cache, n_solutions)
            if self.by_rows
            else cache.gram(fit.kernel)
        )
        scheme = self._scheme(rows.codes, rows.weights)
        problem = PassProblem(
            cache,
            fit.kernel,
            gram,
            scheme.labels,
            fit.whole.per_class,  # factors see how common each class is among all rows
            partial(scheme.solve, gram, cache=cache),
            scheme.solve_key,
        )
        machines = fit_passes(problem, factors, fit.n_passes, self.normalise)
        return fit.numbered(machines)

    def _scheme(self, codes: np.ndarray, weights: np.ndarray) -> OneVsRest:
        """The scheme over rows of these classes that stand for so many each."""
        tol = self._tol(len(codes))
        return SCHEMES[self.scheme](
            codes, len(self.classes_), weights, self.C, self.cost_ratio, tol
        )

    @property
    def linear(self) -> bool:
        return self.scheme != "one_vs_one"  # votes

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        return SCHEMES[self.scheme].scores(decisions)

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """One score a class, (n_rows, n_classes), also where there are two classes."""
        return self.scores_from(self._decisions(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """One score a class, (n_rows, n_classes) in ``classes_`` order.

        Of two classes it is (n_rows,), half the difference of their scores, as scikit-learn asks.
        """
        scores = self.class_scores(X)
        return (
            (scores[:, 1] - scores[:, 0]) / 2.0 if len(self.classes_) == 2 else scores
        )

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return self.scores_from(decisions).argmax(axis=1)

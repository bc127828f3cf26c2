"""Multi-class machine over a scheme: its decision functions and how they are solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from screening.estimators import landmarks
from screening.estimators.kernel_machine import (
    FitInputs,
    KernelClassifier,
    TrainingRows,
)
from screening.estimators.landmarks import Landmarks
from screening.estimators.passes import KernelExpansion, PassProblem, fit_passes
from screening.estimators.schemes import SCHEMES, OneVsRest
from screening.factors.first_pass import Factor
from screening.kernels.base import Kernel
from screening.kernels.expansions import expansion_at
from screening.solvers import gram_within


@dataclass(kw_only=True, eq=False, repr=False)
class MultiClassSVM(KernelClassifier):
    """Multi-class SVM, trained again on the rescaled kernel if there is a factor.

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
    approximation : {"none", "landmarks"}
        "landmarks" trains on ``n_landmarks`` rows, each with the cost of the rows it
        represents (see ``estimators.landmarks``). Exact if there are no more rows than
        that.
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
    scheme : {"one_vs_rest", "one_vs_one", "crammer_singer", "simplified"}
        One decision function per class, one per pair of classes (votes), or all classes
        in one problem.
    cost_ratio : float > 0 or "balanced"
        Cost of a machine's positive rows divided by that of its negative rows;
        "balanced" is the inverse ratio of their numbers. One problem for all classes
        has no positive rows: "balanced" then weights each class by its inverse number,
        and a number is for "one_vs_rest" only.

    Notes
    -----
    Sparse X raises TypeError: every method here measures distances between dense rows.

    Examples
    --------
    >>> import numpy as np
    >>> from screening import MultiClassSVM
    >>> middles = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], 20, axis=0)
    >>> X = middles + np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.repeat(["bone", "lesion", "zone"], 20)
    >>> MultiClassSVM(gamma=0.5).fit(X, y).predict([[4.0, 0.0], [0.0, 4.0]])
    array(['lesion', 'zone'], dtype='<U6')
    """

    scheme: str = "one_vs_rest"
    cost_ratio: float | str = 1.0

    name: ClassVar[str] = "multi_class"

    def check_parameters(self) -> None:
        """Raise ValueError for invalid parameters and incompatible components."""
        super().check_parameters()
        if self.scheme not in SCHEMES:
            raise ValueError(
                f"scheme must be one of {', '.join(SCHEMES)}, got {self.scheme!r}"
            )
        if self.cost_ratio == "balanced":
            return
        if isinstance(self.cost_ratio, str) or not self.cost_ratio > 0:
            raise ValueError(
                f"cost_ratio must be > 0 or 'balanced', got {self.cost_ratio!r}"
            )
        if self.scheme != "one_vs_rest" and self.cost_ratio != 1.0:
            raise ValueError(
                f"cost_ratio {self.cost_ratio!r} needs scheme one_vs_rest, not "
                f"{self.scheme}; give 'balanced' instead"
            )

    @property
    def relative_work(self) -> float:
        """Work of a decision function, in fits of a machine of two classes.

        A rough estimate, by which searches are sized.
        """
        return SCHEMES[self.scheme].relative_work

    @property
    def by_rows(self) -> bool:
        """True if a fit needs only some rows of the kernel matrix, never all of it."""
        # The other schemes solve for all classes at once, on the whole matrix.
        return self.scheme in ("one_vs_rest", "one_vs_one")

    def _check_classes(self, n_classes: int) -> None:
        if n_classes < 2:
            raise ValueError(
                "MultiClassSVM needs rows of 2 classes or more; the labels contain "
                "one class only"
            )

    def _near_boundary(
        self, kernel: Kernel, whole: TrainingRows, first: Landmarks
    ) -> np.ndarray:
        x = np.ascontiguousarray(whole.x[first.rows])
        pilot = self._scheme(whole.codes[first.rows], first.weights)
        unscaled = np.ones((len(x), 1))
        (dual,) = pilot.solve(kernel(x, x), [unscaled])
        sums = expansion_at(kernel, whole.x, x, dual.weights)
        decisions = sums + dual.intercept
        scheme = self._scheme(whole.codes, np.ones(len(whole.x)))
        return scheme.margins(decisions) < landmarks.NEAR_MARGIN

    def _train(
        self, factors: Sequence[Factor | None], inputs: FitInputs
    ) -> list[KernelExpansion]:
        cache = inputs.cache
        if self.by_rows:
            n_solutions = (inputs.n_rescalings + 1) * len(self.classes_)
            gram = gram_within(inputs.kernel, cache, n_solutions)
        else:
            gram = cache.gram(inputs.kernel)
        scheme = self._scheme(inputs.rows.codes, inputs.rows.weights)
        problem = PassProblem(
            cache=cache,
            kernel=inputs.kernel,
            gram=gram,
            labels=scheme.labels,
            # Factors see how common each class is among all rows.
            class_counts=inputs.whole.per_class,
            solve=partial(scheme.solve, gram, cache=cache),
            solve_key=scheme.solve_key,
        )
        expansions = fit_passes(problem, factors, inputs.n_rescalings, self.normalise)
        return inputs.with_row_numbers(expansions)

    def _scheme(self, codes: np.ndarray, weights: np.ndarray) -> OneVsRest:
        """Return the scheme over rows of these classes and weights."""
        return SCHEMES[self.scheme](
            codes=codes,
            n_classes=len(self.classes_),
            weights=weights,
            C=self.C,
            cost_ratio=self.cost_ratio,
            tol=self._tol(len(codes)),
        )

    @property
    def linear(self) -> bool:
        """True if scores are decisions, not votes, so that machines can be averaged."""
        return self.scheme != "one_vs_one"

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        """Return scores (n_rows, n_classes) from decisions (n_rows, n_outputs)."""
        return SCHEMES[self.scheme].scores(decisions)

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """Return one score per class, (n_rows, n_classes), also for two classes."""
        return self.scores_from(self._decisions(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return one score per class, (n_rows, n_classes) in ``classes_`` order.

        For two classes (n_rows,), half the difference of their scores, as scikit-learn
        expects.
        """
        scores = self.class_scores(X)
        if len(self.classes_) == 2:
            return (scores[:, 1] - scores[:, 0]) / 2.0
        return scores

    def _codes(self, decisions: np.ndarray) -> np.ndarray:
        return self.scores_from(decisions).argmax(axis=1)

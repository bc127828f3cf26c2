"""What is left of a machine once it is fitted: its state and its scores, and nothing of scikit-learn.

Estimators are these with `fit` and scikit-learn's surface around them. A stored model is restored as these
alone: to score a night, scikit-learn is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from screening.errors import ModelError
from screening.factors.base import Factor
from screening.kernels import Gaussian, Kernel
from screening.machines.passes import Passes
from screening.machines.trees import Trees


class Fitted:
    """A machine with the parameters that its state is read by.

    Parameters
    ----------
    **parameters
        Become attributes.
    """

    classes_: np.ndarray
    n_features_in_: int

    def __init__(self, **parameters: Any) -> None:
        vars(self).update(parameters)

    @property
    def linear(self) -> bool:
        """Whether scores are the decisions themselves, so that machines may be averaged before the rows."""
        return True

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """f(x), (n_rows,), or one score a class."""
        raise NotImplementedError

    def state(self) -> dict[str, np.ndarray]:
        """The fitted state as arrays, none of dtype object."""
        raise NotImplementedError

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over a fitted state; ModelError if its arrays are missing or do not fit each other."""
        raise NotImplementedError

    def _check_fitted(self) -> None:
        """Refuse a machine that has no state yet; one that was restored has."""

    def _rows(self, X: ArrayLike) -> np.ndarray:
        """Rows to score, as the machine reads them; ValueError where they are of another width."""
        x = np.asarray(X)
        if x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"rows have {x.shape[1]} columns, the machine learned from {self.n_features_in_}"
            )
        return x


class FittedKernel(Fitted):
    """A kernel machine: its passes, on the rows they stand on."""

    kind: str
    kernel: Any
    factor: Factor | None

    @property
    def _kernel(self) -> Kernel:
        return Gaussian() if self.kernel is None else self.kernel

    @property
    def passes_kept(self) -> Passes:
        """All passes of the fitted machine."""
        self._check_fitted()
        return self._passes

    @property
    def passes_(self) -> list[dict[str, Any]]:
        """Per pass: support vectors, gap, iterations, the factor made from it."""
        return self.passes_kept.report()

    def _decisions(self, X: ArrayLike) -> np.ndarray:
        self._check_fitted()
        return self._passes.decisions(np.ascontiguousarray(self._rows(X)))

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        """Scores, one a class where there are several, from the decisions of the last pass."""
        return decisions

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """f(x), (n_rows,)."""
        return self._decisions(X)[:, 0]

    def _keep(self, passes: Passes) -> None:
        """Fitted attributes, from the passes alone, so that ``restore`` gives the same."""
        dual = passes.last.dual
        used = np.flatnonzero(np.any(dual.weights != 0, axis=1))
        self._passes, self.kernel_ = passes, passes.kernel
        self.support_, self.support_vectors_ = passes.support[used], passes.rows[used]
        self.dual_coef_, self.intercept_ = dual.weights[used].T, dual.intercept
        self.n_iter_ = max(1, sum(one.dual.n_iter for one in passes.chain))
        self.kkt_gap_ = max(one.dual.gap for one in passes.chain)

    def state(self) -> dict[str, np.ndarray]:
        state = self.passes_kept.state()
        if hasattr(self, "classes_"):
            state["classes"] = as_array(self.classes_)
        return state

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Take over a fitted state made by an estimator of the same parameters.

        Raises
        ------
        ModelError
            If arrays are missing or do not fit each other.
        """
        passes = Passes.from_state(self._kernel, self.factor, state)
        if len(passes.chain) > 1 and self.factor is None:
            raise ModelError(f"the model has {len(passes.chain)} passes and its recipe has no factor")
        if self.kind != "one_class":
            if "classes" not in state:
                raise ModelError("the model lacks the array 'classes'")
            self.classes_ = state["classes"]
        self._keep(passes)
        self.n_features_in_ = passes.rows.shape[1]
        return self


class FittedMultiClass(FittedKernel):
    """A kernel machine with one score a class, as its scheme makes them."""

    scheme: str

    @property
    def linear(self) -> bool:
        return self.scheme != "one_vs_one"  # votes

    def scores_from(self, decisions: np.ndarray) -> np.ndarray:
        from screening.machines.schemes import SCHEMES

        return SCHEMES[self.scheme].scores(decisions)

    def class_scores(self, X: ArrayLike) -> np.ndarray:
        """One score a class, (n_rows, n_classes), also where there are two classes."""
        return self.scores_from(self._decisions(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """One score a class, (n_rows, n_classes) in ``classes_`` order.

        Of two classes it is (n_rows,), half the difference of their scores, as scikit-learn asks.
        """
        scores = self.class_scores(X)
        return (scores[:, 1] - scores[:, 0]) / 2.0 if len(self.classes_) == 2 else scores


class FittedTrees(Fitted):
    """Trees and nothing else."""

    trees_: Trees

    @property
    def linear(self) -> bool:
        return False

    def state(self) -> dict[str, np.ndarray]:
        self._check_fitted()
        own = {"classes": as_array(self.classes_), "n_features": np.asarray(self.n_features_in_)}
        return own | self.trees_.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        try:
            classes, n_features = state["classes"], state["n_features"]
            if classes.ndim != 1 or len(classes) < 2 or n_features.shape or n_features.dtype.kind not in "iu":
                raise ModelError("the model's arrays do not fit each other")
            trees = Trees.from_state(state, int(n_features), len(classes))
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        self.trees_, self.classes_, self.n_features_in_ = trees, classes, int(n_features)
        return self


class FittedForest(FittedTrees):
    """A forest: trees whose leaves hold shares of the classes."""

    # As the recipe says; an estimator has it always.
    n_estimators: int | None = None

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Mean share of each class in the leaves that a row reaches, (n_rows, n_classes)."""
        self._check_fitted()
        return self.trees_.shares(self._rows(X))

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes).

        Half a vote is added for each class (the empirical logit): a unanimous forest is as sure as its number
        of trees allows, not infinitely, and no two probabilities are clipped to the same score.
        """
        shares = self.predict_proba(X)
        n_trees, n_classes = self.trees_.n_trees, shares.shape[1]
        logs = np.log((n_trees * shares + 0.5) / (n_trees + 0.5 * n_classes))
        return logs[:, 1] - logs[:, 0] if n_classes == 2 else logs

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        super().restore(state)
        n_trees, value = self.trees_.n_trees, self.trees_.value
        if self.n_estimators not in (None, n_trees):
            raise ModelError(f"the model has {n_trees} trees where there should be {self.n_estimators}")
        if value.dtype != np.float32 or not ((value >= 0) & (value <= 1)).all():
            raise ModelError("the model's trees have values out of range")
        return self


class FittedBoosting(FittedTrees):
    """Trees that add up: their leaves hold parts of the log odds."""

    # As the recipe says; an estimator has it always.
    n_rounds: int | None = None

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); with more than two classes log probabilities, (n_rows, n_classes)."""
        self._check_fitted()
        from scipy.special import log_softmax

        sums = self._sums(self._rows(X))
        return sums[:, 0] if sums.shape[1] == 1 else log_softmax(sums, axis=1)

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        return self.trees_.sums(rows)

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        super().restore(state)
        rounds, odd = divmod(self.trees_.n_trees, self.trees_.value.shape[1])
        # LightGBM stops early where nothing is left to split.
        if odd or (self.n_rounds is not None and rounds > self.n_rounds):
            raise ModelError(
                f"the model has {self.trees_.n_trees} trees, too many or not as many of each class"
            )
        return self


class FittedLinear(Fitted):
    """Coefficients and an intercept a class, or one of each for two classes."""

    coef_: np.ndarray
    intercept_: np.ndarray
    n_iter_: int

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log odds, (n_rows,); of more than two classes one score a class, (n_rows, n_classes)."""
        self._check_fitted()
        scores = self._rows(X) @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def state(self) -> dict[str, np.ndarray]:
        self._check_fitted()
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "classes": as_array(self.classes_),
            "n_iter": np.asarray(self.n_iter_),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        try:
            coef, intercept, classes = state["coef"], state["intercept"], state["classes"]
            n_iter = int(state["n_iter"])
        except KeyError as missing:
            raise ModelError(f"the model lacks the array {missing}") from None
        n_outputs = len(classes) if len(classes) > 2 else 1
        if coef.ndim != 2 or len(coef) != n_outputs or intercept.shape != (n_outputs,):
            raise ModelError("the model's arrays do not fit each other")
        self.coef_, self.intercept_, self.classes_, self.n_iter_ = coef, intercept, classes, n_iter
        self.n_features_in_ = coef.shape[1]
        return self


FITTED = {
    "one_class": FittedKernel,
    "two_class": FittedKernel,
    "multi_class": FittedMultiClass,
    "logistic": FittedLinear,
    "random_forest": FittedForest,
    "balanced_forest": FittedForest,
    "boosting": FittedBoosting,
}
"""What a stored model holds, by its recipe's machine or baseline."""


def as_array(classes: np.ndarray) -> np.ndarray:
    """Class names as an array that needs no pickle."""
    return classes.astype(str) if classes.dtype == object else classes

"""Scores for which nothing is learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from screening.estimators.base import Classifier, as_array


@dataclass(eq=False, repr=False)
class GivenScore(Classifier):
    """A score from outside the model: the sum of the columns.

    Of two classes, the second is the one that a higher score makes likelier.
    """

    name = "given"
    requires_training = False

    def __sklearn_tags__(self):  # type: ignore[no-untyped-def]
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def check_parameters(self) -> None:
        """Accept all: it has no parameters."""

    def _learn(self, x: np.ndarray, codes: np.ndarray) -> None:
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                "multiclass, but a given score separates two classes."
            )

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the sums of the columns, shape (n_rows,)."""
        check_is_fitted(self, "classes_")
        return self._rows(X).sum(axis=1)

    def state(self) -> dict[str, np.ndarray]:
        """Return the fitted state as arrays, for ``restore``."""
        check_is_fitted(self, "classes_")
        n_features = np.asarray(self.n_features_in_)
        return {"classes": as_array(self.classes_), "n_features": n_features}

    def restore(self, state: Mapping[str, np.ndarray]) -> Self:
        """Set the fitted state that ``state`` returned."""
        self.classes_ = state["classes"]
        self.n_features_in_ = int(state["n_features"])
        return self


@dataclass(eq=False, repr=False)
class SumOfPoints(GivenScore):
    """A table of points: the sum of the points of its items."""

    name = "points"

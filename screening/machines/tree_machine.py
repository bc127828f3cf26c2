"""What machines made of trees share as estimators: how they read rows and check parameters."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from screening.errors import ModelError
from screening.machines.base import as_array
from screening.machines.classifier import Classifier
from screening.machines.trees import Trees


class TreeMachine(Classifier):
    """A classifier that is nothing but trees once it is fitted."""

    trees_: Trees
    # Trees split at float32 values; rows are cast once, not once a tree.
    reads = np.float32
    # Parameters that are whole numbers > 0, or None where that is the default.
    _whole: ClassVar[tuple[str, ...]]

    def check_parameters(self) -> None:
        """Refuse parameters out of range (ValueError)."""
        for name in self._whole:
            value = getattr(self, name)
            if name == "max_depth" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number > 0, got {value!r}")

    @property
    def linear(self) -> bool:
        return False

    def state(self) -> dict[str, np.ndarray]:
        check_is_fitted(self)
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

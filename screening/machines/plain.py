"""What the machines need of scikit-learn where only this package meets them."""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from functools import cache
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike


class BaseEstimator:
    """An estimator is what its constructor was given, under the same names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor takes, as it is now."""
        return {name: getattr(self, name) for name in _names(cast(Hashable, type(self)))}

    def set_params(self, **params: Any) -> Self:
        """Set what the constructor takes."""
        for name, value in params.items():
            if name not in _names(cast(Hashable, type(self))):
                raise ValueError(f"Invalid parameter {name!r}; valid are {sorted(self.get_params())}")
            setattr(self, name, value)
        return self


class ClassifierMixin:
    """Says nothing here."""


class OutlierMixin:
    """Says nothing here."""


def check_is_fitted(estimator: BaseEstimator) -> None:
    """Nobody here asks a machine that was not fitted."""


def validate_data(
    estimator: Any, X: ArrayLike, y: ArrayLike | None = None, *, reset: bool = True, **how: Any
) -> Any:
    """Rows, and labels where given, as arrays; the encoder has seen to what is in them."""
    x = np.asarray(X, **how)
    if reset:
        estimator.n_features_in_ = x.shape[1]
    return x if y is None else (x, np.asarray(y))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)

"""What machines made of trees share as estimators: how they read rows and check parameters."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from screening.machines.classifier import Classifier
from screening.machines.fitted import FittedTrees


class TreeMachine(Classifier, FittedTrees):
    """A classifier that is nothing but trees once it is fitted."""

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

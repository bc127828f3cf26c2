"""Magnification inside the margin, and the recipe that uses it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from screening.factors.base import Factor

RECIPE = """
name = "slab"
title = "Support vector machine, kernel magnified inside its margin"
paper = "Nobody 2026"
machine = "two_class"

[kernel]
type = "gaussian"

[factor]
type = "slab"

[parameters]
C = 1.0
gamma = "scale"
passes = 1
height = 1.0

[search.grid]
height = [0.3, 1.0, 3.0]
passes = [0, 1]
"""


@dataclass(frozen=True)
class Slab(Factor):
    """Conformal factor c(x) = 1 + height where |f(x)| < 1, and 1 elsewhere."""

    height: float = 1.0

    name: ClassVar[str] = "slab"
    machines: ClassVar[frozenset[str]] = frozenset({"two_class"})

    def log_at(self, first_pass, state):
        """Return log c at the rows of first_pass.x, shape (n,)."""
        return np.log1p(self.height * (np.abs(first_pass.decision) < 1))

"""
A plug-in
=========

A plug-in is a package that offers, for instance, a factor to recipes. Here a machine
has the factor, to see what it is worth on held-out rows.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.model_selection import cross_val_score

from screening import TwoClassSVM
from screening.factors.base import Factor


@dataclass(frozen=True)
class Slab(Factor):
    """c(x) = 1 + height inside the margin, and 1 elsewhere."""

    height: float
    name: ClassVar[str] = "slab"
    machines: ClassVar[frozenset[str]] = frozenset({"two_class"})

    def log_at(self, first_pass, state):
        return np.log1p(self.height * (np.abs(first_pass.decision) < 1))


x, y = make_moons((160, 40), noise=0.3, random_state=0)
heights = [0.1, 0.3, 1.0, 3.0]
machines = [TwoClassSVM(factor=factor) for factor in (None, *map(Slab, heights))]
scores = [cross_val_score(svm, x, y, scoring="roc_auc").mean() for svm in machines]
ax = pd.Series(scores, [0.0, *heights]).plot(style="o-")
ax.set(xlabel="height (0: no factor)", ylabel="held-out AUROC")

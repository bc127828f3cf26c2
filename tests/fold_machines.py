"""Models that are their folds, cheap and with a known truth: linear machines on normal
classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import default_rng
from scipy.stats import norm

from screening.model_selection.held_out import encode, plan_method
from screening.model_selection.plans import run_plan
from screening.settings import Resources

FEATURES = 8
SHIFTED = 3
APART = 1.0
FOLDS = 5


@dataclass(frozen=True)
class Folded:
    """Held-out scores, and what the mean of the machines does to the population at any
    threshold.
    """

    scores: np.ndarray  # (n_repeats, n_rows)
    y: np.ndarray
    fold: np.ndarray
    weights: np.ndarray
    intercept: float

    def sensitivity(self, threshold: float) -> float:
        centre = APART * self.weights[:SHIFTED].sum()
        spread = np.linalg.norm(self.weights)
        return float(norm.sf(threshold, self.intercept + centre, spread))

    def specificity(self, threshold: float) -> float:
        spread = np.linalg.norm(self.weights)
        return float(norm.cdf(threshold, self.intercept, spread))

    @property
    def auroc(self) -> float:
        w = self.weights
        along = APART * w[:SHIFTED].sum()
        apart = along / np.linalg.norm(w)
        return float(norm.cdf(apart / np.sqrt(2)))


def drawn(seed: int, n_rows: int, prevalence: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of a cohort whose number of positives is chance too."""
    rng = default_rng(seed)
    y = rng.random(n_rows) < prevalence
    x = rng.normal(size=(n_rows, FEATURES))
    x[y, :SHIFTED] += APART
    return x, y


def folded(
    x: np.ndarray,
    y: np.ndarray,
    seed: int,
    repeats: int = 1,
    features: int = FEATURES,
) -> Folded:
    """Fisher's discriminant on the first features, a machine for each fold of each
    repeat.
    """
    rng = default_rng(seed)
    used = x[:, :features]
    scores = np.empty((repeats, len(y)))
    folds = np.empty((repeats, len(y)), int)
    weights = []
    intercepts = []
    for r in range(repeats):
        for side in (y, ~y):
            folds[r, rng.permutation(np.flatnonzero(side))] = (
                np.arange(side.sum()) % FOLDS
            )
        for k in range(FOLDS):
            learned = folds[r] != k
            test = folds[r] == k
            ill = used[learned & y]
            well = used[learned & ~y]
            of_ill = ill.mean(axis=0)
            of_well = well.mean(axis=0)
            middle = (of_ill + of_well) / 2
            of_cases = np.cov(ill.T) * len(ill)
            of_others = np.cov(well.T) * len(well)
            within = (of_cases + of_others) / learned.sum()
            w = np.linalg.solve(within, of_ill - of_well)
            scores[r, test] = (used[test] - middle) @ w
            padded = np.pad(w, (0, FEATURES - features))
            weights.append(padded)
            intercepts.append(-middle @ w)
    mean = np.mean(weights, axis=0)
    intercept = float(np.mean(intercepts))
    return Folded(scores, y, folds[0], mean, intercept)


def held_out_by(study, recipe, **resources):
    """Hold every row of a study out by a recipe."""
    return run_plan(
        plan_method(study, recipe, encode(study, recipe)), Resources(**resources)
    )

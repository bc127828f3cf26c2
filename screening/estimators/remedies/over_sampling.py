"""Synthetic minority rows, in the input space or as images in the feature space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.estimators.remedies.base import Remedy
from screening.estimators.training import SolveTraining, Training
from screening.factors.base import check_count
from screening.factors.first_pass import DualSolution
from screening.kernels import rescaled, rescaled_distances


@dataclass(frozen=True)
class Smote(Remedy):
    """SMOTE, Chawla et al. (2002), by imbalanced-learn, until classes are balanced.

    A synthetic row that becomes a support vector is stored with the model; its number
    in ``support_`` is n_rows or above. A single minority row has no neighbor: nothing
    is added.

    Parameters
    ----------
    k : int, >= 1
        Number of neighbors to interpolate with; fewer if the minority has fewer.
    seed : int
    """

    k: int = 5
    seed: int = 0

    name: ClassVar[str] = "smote"
    whole_matrix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def resample(
        self, x: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return all rows and class numbers, synthetic minority rows last."""
        n_minority = int(np.bincount(codes, minlength=2).min())
        if n_minority < 2:
            return x, codes
        # Imported here: it loads scikit-learn's test tools and pytest, a fifth of the
        # import time of every night.
        from imblearn.over_sampling import SMOTE

        k_neighbors = min(self.k, n_minority - 1)
        sampler = SMOTE(k_neighbors=k_neighbors, random_state=self.seed)
        resampled, resampled_codes = sampler.fit_resample(x, codes)
        return np.ascontiguousarray(resampled), resampled_codes


@dataclass(frozen=True)
class Interpolation:
    """Synthetic images (1 - gap) Phi(x_first) + gap Phi(x_second).

    It represents the matrix A (n_new, n_rows) by its two entries per row.

    Parameters
    ----------
    first, second : int ndarray of shape (n_new,)
        Row numbers of the parents.
    gap : ndarray of shape (n_new,)
        Share of the second parent, in [0, 1).
    """

    first: np.ndarray
    second: np.ndarray
    gap: np.ndarray

    def times(self, matrix: np.ndarray) -> np.ndarray:
        """Return A matrix, shape (n_new, m)."""
        gap = self.gap[:, None]
        return (1.0 - gap) * matrix[self.first] + gap * matrix[self.second]

    def fold_weights(self, weights: np.ndarray, n_rows: int) -> np.ndarray:
        """Return A' weights, (n_rows,): weights of images moved to their parents."""
        folded = np.zeros(n_rows)
        np.add.at(folded, self.first, (1.0 - self.gap) * weights)
        np.add.at(folded, self.second, self.gap * weights)
        return folded

    def extend(self, gram: np.ndarray) -> np.ndarray:
        """Return K* = [I; A] K [I; A]', shape (n_rows + n_new, n_rows + n_new)."""
        across = self.times(gram)
        among_new = self.times(across.T)
        return np.block([[gram, across.T], [across, among_new]])


def _with_parents(values: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Return values of rows, then of synthetic rows: those of their first parents."""
    return np.concatenate([values, values[parents]])


@dataclass(frozen=True)
class ESmote(Remedy):
    """SMOTE in the empirical feature space, until classes are balanced.

    Perez-Ortiz et al., eq. 1-3. A synthetic image is linear in training images, so its
    kernel to anything is known exactly, without eigenvectors, and its weight is added
    to its two parents: no synthetic row is stored. Each pass interpolates in its own
    feature space, that of the current rescaled kernel.

    Parameters
    ----------
    k : int, >= 1
        Number of neighbors by feature-space distance; fewer if the minority has fewer.
        A single minority row has none: nothing is added.
    seed : int
    """

    k: int = 5
    seed: int = 0

    name: ClassVar[str] = "e_smote"

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def solve(self, training: Training, solve: SolveTraining) -> DualSolution:
        """Solve the pass with synthetic images; fold their weights onto the rows."""
        images = self.draw(training)
        if images is None:
            return solve(training)
        n_rows = len(training.labels)
        parents = images.first
        groups = training.groups
        counts = training.counts
        if groups is not None:
            groups = _with_parents(groups, parents)
        if counts is not None:
            counts = _with_parents(counts, parents)
        gram = rescaled(training.whole, training.c, training.c)
        extended = replace(
            training,
            gram=images.extend(gram),
            labels=_with_parents(training.labels, parents),
            c=np.ones(n_rows + len(parents)),
            costs=_with_parents(training.costs, parents),
            groups=groups,
            counts=counts,
            cache=None,
        )
        dual = solve(extended)
        folded = images.fold_weights(dual.weights[n_rows:, 0], n_rows)
        weights = dual.weights[:n_rows, 0] + folded
        return replace(dual, weights=weights[:, None], margin=dual.margin[:n_rows])

    def draw(self, training: Training) -> Interpolation | None:
        """Draw the images that balance the classes; None if there are none to draw.

        Every minority row is a first parent equally often, the rest of them are drawn
        without replacement.
        """
        positive = training.labels > 0
        is_minority = positive if 2 * positive.sum() <= len(positive) else ~positive
        minority = np.flatnonzero(is_minority)
        n_minority = len(minority)
        n_new = len(positive) - 2 * n_minority
        if n_minority < 2 or n_new < 1:
            return None
        rng = np.random.default_rng(self.seed)
        gram = training.gram[np.ix_(minority, minority)]
        c = training.c[minority]
        diagonal = gram.diagonal()
        distances = rescaled_distances(gram, c, c, diagonal, diagonal)
        np.fill_diagonal(distances, np.inf)
        n_neighbors = min(self.k, n_minority - 1)
        nearest_first = np.argsort(distances, axis=1, kind="stable")
        neighbors = nearest_first[:, :n_neighbors]
        n_rounds, n_left = divmod(n_new, n_minority)
        rounds = np.tile(np.arange(n_minority), n_rounds)
        rest = rng.permutation(n_minority)[:n_left]
        parents = np.concatenate([rounds, rest])
        choice = rng.integers(n_neighbors, size=n_new)
        partners = neighbors[parents, choice]
        return Interpolation(minority[parents], minority[partners], rng.random(n_new))

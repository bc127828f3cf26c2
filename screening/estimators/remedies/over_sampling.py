"""Synthetic minority rows, in the input space or as images in the feature space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from screening.estimators.remedies.base import Remedy
from screening.estimators.training import Solve, Training
from screening.factors.base import check_count
from screening.factors.first_pass import DualSolution
from screening.kernels import rescaled, rescaled_distances


@dataclass(frozen=True)
class Smote(Remedy):
    """SMOTE, Chawla et al. (2002), as imbalanced-learn has it, until the classes are even.

    A synthetic row that becomes a support vector is stored with the model, its number in ``support_`` being
    that of no training row (n_rows or above). A single minority row has no neighbour: nothing is added.

    Parameters
    ----------
    k : int, >= 1
        Neighbours to interpolate with; fewer where the minority has fewer.
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
        n_fewer = int(np.bincount(codes, minlength=2).min())
        if n_fewer < 2:
            return x, codes
        # It brings scikit-learn's checks and pytest along: a fifth of what every night would import.
        from imblearn.over_sampling import SMOTE

        more, labels = SMOTE(
            k_neighbors=min(self.k, n_fewer - 1), random_state=self.seed
        ).fit_resample(x, codes)
        return np.ascontiguousarray(more), labels


@dataclass(frozen=True)
class Interpolation:
    """Images (1 - gap) Phi(x_first) + gap Phi(x_second), that is A by its two entries a row."""

    first: np.ndarray
    second: np.ndarray
    gap: np.ndarray

    def times(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix, (n_new, m)."""
        gap = self.gap[:, None]
        return (1.0 - gap) * matrix[self.first] + gap * matrix[self.second]

    def folded(self, weights: np.ndarray, n_rows: int) -> np.ndarray:
        """A' weights, (n_rows,): what weights of the images are as weights of training rows."""
        onto = np.zeros(n_rows)
        np.add.at(onto, self.first, (1.0 - self.gap) * weights)
        np.add.at(onto, self.second, self.gap * weights)
        return onto

    def extended(self, gram: np.ndarray) -> np.ndarray:
        """K* = [I; A] K [I; A]', (n + n_new, n + n_new)."""
        across = self.times(gram)
        return np.block([[gram, across.T], [across, self.times(across.T)]])


@dataclass(frozen=True)
class ESmote(Remedy):
    """SMOTE in the empirical feature space (Perez-Ortiz et al., eq. 1-3), until the classes are even.

    A synthetic image is linear in training images, hence its kernel to anything is known exactly, without
    eigenvectors, and its weight folds back onto its two parents: no synthetic row is stored. Each pass
    interpolates in its own feature space, that of the current rescaled kernel.

    Parameters
    ----------
    k : int, >= 1
        Neighbours, by feature-space distance; fewer where the minority has fewer, and of a single minority
        row nothing is made.
    seed : int
    """

    k: int = 5
    seed: int = 0

    name: ClassVar[str] = "e_smote"

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def solve(self, training: Training, solve: Solve) -> DualSolution:
        drawn = self.drawn(training)
        if drawn is None:
            return solve(training)
        n_rows = len(training.labels)
        parents = drawn.first
        groups, counts = training.groups, training.counts
        larger = replace(
            training,
            gram=drawn.extended(rescaled(training.whole, training.c, training.c)),
            labels=np.concatenate([training.labels, training.labels[parents]]),
            c=np.ones(n_rows + len(parents)),
            costs=np.concatenate([training.costs, training.costs[parents]]),
            groups=None
            if groups is None
            else np.concatenate([groups, groups[parents]]),
            counts=None
            if counts is None
            else np.concatenate([counts, counts[parents]]),
            cache=None,
        )
        dual = solve(larger)
        weights = dual.weights[:n_rows, 0] + drawn.folded(
            dual.weights[n_rows:, 0], n_rows
        )
        return replace(dual, weights=weights[:, None], margin=dual.margin[:n_rows])

    def drawn(self, training: Training) -> Interpolation | None:
        """The images to make: every minority row is a parent equally often, the rest drawn without return."""
        positive = training.labels > 0
        rarer = np.flatnonzero(
            positive if 2 * positive.sum() <= len(positive) else ~positive
        )
        n_new = len(positive) - 2 * len(rarer)
        if len(rarer) < 2 or n_new < 1:
            return None
        rng = np.random.default_rng(self.seed)
        gram, c = training.gram[np.ix_(rarer, rarer)], training.c[rarer]
        diagonal = gram.diagonal()
        distances = rescaled_distances(gram, c, c, diagonal, diagonal)
        np.fill_diagonal(distances, np.inf)
        near = np.argsort(distances, axis=1, kind="stable")[
            :, : min(self.k, len(rarer) - 1)
        ]
        often, rest = divmod(n_new, len(rarer))
        parents = np.concatenate(
            [np.tile(np.arange(len(rarer)), often), rng.permutation(len(rarer))[:rest]]
        )
        partners = near[parents, rng.integers(near.shape[1], size=n_new)]
        return Interpolation(rarer[parents], rarer[partners], rng.random(n_new))

"""Landmarks: rows that represent many, for tables with too many rows to train on all.

These are rows with costs, not low-rank features: every factor, pass and remedy works
on them. Hinge losses are summed over a stratified sample, each with the cost of the
rows it represents. Most losses are 0, far from the boundary; a pilot machine finds
where they are not, and there the sample is dense. Alternatively a linear machine is
trained on the features that some rows span (Nystroem), at a cost that grows no faster
than the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from sklearn.linear_model import Ridge

from screening.estimators.training import Training
from screening.factors.first_pass import DualSolution
from screening.metrics.ties import hashed

_APPROXIMATIONS = ("none", "landmarks", "nystroem")
# Share of a class's landmarks that rows near the boundary get.
_NEAR_SHARE = 0.8
# Share of all weights that the rarer of two classes has at least.
RARE_SHARE = 0.2
# Rows whose y f is below this may have a loss: the margin 1, and an allowance for the
# error of the pilot.
NEAR_MARGIN = 1.2
# Eigenvalues of the landmarks' kernel below this share of the largest are rounding.
_MIN_EIGENVALUE_SHARE = 1e-10
# Rows for a linear machine on some hundred features; more do not change it.
MAX_NYSTROEM_ROWS = 30_000


@dataclass(frozen=True)
class Landmarks:
    """Row numbers of landmarks and how many rows each represents.

    Within a class the weights sum to its rows. Of two classes the weights of the
    commoner one are then lowered until the rarer has a share of 0.2, as in a
    sub-sample: at one case in a hundred the plain machine cannot rank.

    Parameters
    ----------
    rows : int ndarray of shape (n_landmarks,)
        Ascending.
    weights : ndarray of shape (n_landmarks,)
    """

    rows: np.ndarray
    weights: np.ndarray


Pilot = Callable[[Landmarks], np.ndarray]
"""Trains a machine on landmarks; returns the mask of all rows near its boundary."""


def choose_landmarks(
    x: np.ndarray, codes: np.ndarray, n_landmarks: int, pilot: Pilot, seed: int
) -> Landmarks:
    """Choose landmarks among all rows, most of them near the boundary of a pilot.

    The rarest class is kept whole, up to an equal share; the rest is divided among the
    other classes. The pilot learns from half as many landmarks. Rows are drawn in the
    order of a hash of their values, so machines of several folds share many of them.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_features)
    codes : int ndarray of shape (n_rows,)
    n_landmarks : int
    pilot : callable
    seed : int
    """
    order = _hash_order(x, seed)
    strata = _strata(codes)
    sizes = list(map(len, strata))
    n_first = _allocate(sizes, max(n_landmarks // 2, 1))
    first = _draw(strata, n_first, order)
    is_near = pilot(_weight_rare_class(first, codes))
    finer_strata = []
    n_drawn = []
    for rows, count in zip(strata, _allocate(sizes, n_landmarks), strict=True):
        near = rows[is_near[rows]]
        far = rows[~is_near[rows]]
        most_near = max(round(_NEAR_SHARE * count), count - len(far))
        n_near = min(len(near), most_near)
        n_far = min(len(far), count - n_near)
        finer_strata += [near, far]
        n_drawn += [n_near, n_far]
    return _weight_rare_class(_draw(finer_strata, n_drawn, order), codes)


def spread(x: np.ndarray, codes: np.ndarray, n_landmarks: int, seed: int) -> Landmarks:
    """Choose landmarks without a pilot, equally many of each class if possible.

    Parameters as for ``choose_landmarks``.
    """
    strata = _strata(codes)
    counts = _allocate(list(map(len, strata)), n_landmarks)
    return _draw(strata, counts, _hash_order(x, seed))


def _strata(codes: np.ndarray) -> list[np.ndarray]:
    """Return the row numbers of each class."""
    n_classes = int(codes.max()) + 1
    return [np.flatnonzero(codes == m) for m in range(n_classes)]


def _hash_order(x: np.ndarray, seed: int) -> np.ndarray:
    """Return the rank of each row by the hash of its values."""
    order = np.argsort(hashed(x, seed), kind="stable")
    return np.argsort(order, kind="stable")


def _weight_rare_class(chosen: Landmarks, codes: np.ndarray) -> Landmarks:
    """Lower the weights of the commoner of two classes, as ``Landmarks`` describes."""
    counts = np.bincount(codes)
    if len(counts) != 2 or counts.min() >= RARE_SHARE * len(codes):
        return chosen
    is_common = codes[chosen.rows] == counts.argmax()
    reduction = counts.min() * (1.0 / RARE_SHARE - 1.0) / counts.max()
    weights = np.where(is_common, reduction * chosen.weights, chosen.weights)
    return Landmarks(chosen.rows, weights)


def _allocate(sizes: list[int], total: int) -> list[int]:
    """Divide a total among classes: smallest first, all rows up to an equal share."""
    counts = [0] * len(sizes)
    left = total
    order = sorted(range(len(sizes)), key=lambda m: sizes[m])
    for n_done, m in enumerate(order):
        equal_share = left // (len(order) - n_done)
        counts[m] = min(sizes[m], max(equal_share, 1))
        left -= counts[m]
    return counts


def _draw(strata: list[np.ndarray], counts: list[int], order: np.ndarray) -> Landmarks:
    """Draw rows of each stratum, the first in the order; at least one if it has any."""
    rows = []
    weights = []
    for stratum, count in zip(strata, counts, strict=True):
        n_drawn = min(max(count, 1), len(stratum))
        if n_drawn:
            first = np.argpartition(order[stratum], n_drawn - 1)[:n_drawn]
            rows.append(stratum[first])
            weights.append(np.full(n_drawn, len(stratum) / n_drawn))
    all_rows = np.concatenate(rows)
    ascending = np.argsort(all_rows)
    all_weights = np.concatenate(weights)
    return Landmarks(all_rows[ascending], all_weights[ascending])


def check_landmarks(
    approximation: str, n_landmarks: int, allows_nystroem: bool
) -> None:
    """Raise ValueError for an invalid approximation or number of landmarks."""
    if approximation not in _APPROXIMATIONS:
        raise ValueError(
            f"approximation must be one of {', '.join(_APPROXIMATIONS)}, "
            f"got {approximation!r}"
        )
    if approximation == "nystroem" and not allows_nystroem:
        raise ValueError(
            "approximation nystroem needs a two-class machine that has neither a "
            "factor nor passes"
        )
    is_whole = not isinstance(n_landmarks, bool) and n_landmarks == int(n_landmarks)
    if not is_whole or n_landmarks < 2:
        raise ValueError(
            f"n_landmarks must be a whole number >= 2, got {n_landmarks!r}"
        )


def solve_on_landmarks(training: Training, rows: np.ndarray) -> DualSolution:
    """Solve a least-squares SVM in the span of some rows.

    Suykens and Vandewalle (1999); Williams and Seeger (2001). With K_LL = U D U' over
    the landmarks, rows have the features K_xL U D^(-1/2), whose products approximate
    the kernel; the linear machine w on them decides by K_xL (U D^(-1/2) w).

    Parameters
    ----------
    training : Training
        Rows of the kernel matrix are computed when they are read; c scales them.
    rows : int ndarray of shape (n_landmarks,)
        The landmarks.
    """
    c = training.c
    all_rows = np.arange(len(training.labels))
    across = training.gram[np.ix_(all_rows, rows)]
    across *= c[rows]
    across *= c[:, None]
    values, directions = eigh(across[rows])
    kept = values > _MIN_EIGENVALUE_SHARE * values[-1]
    features = directions[:, kept] / np.sqrt(values[kept])
    # 1/2 |w|^2 + costs (y - f)^2 ranks as the squared hinge does, in a tenth of the
    # time at any cost.
    machine = Ridge(alpha=0.5, solver="cholesky", copy_X=False)
    machine.fit(across @ features, training.labels, sample_weight=training.costs)
    weights = np.zeros((len(training.labels), 1))
    weights[rows, 0] = features @ machine.coef_
    return DualSolution(
        weights=weights,
        intercept=np.array([machine.intercept_]),
        margin=np.zeros(weights.shape, bool),
        gap=0.0,
        n_iter=1,
    )

"""Rows that stand for many: what a machine is trained on where there are too many rows for all.

Not low-rank features but rows with costs: the machine stays what it is (every factor, pass and remedy works
on it), its hinge losses are summed over a stratified sample, each with the cost of the rows it stands for.
Most losses are zero, far from the boundary; a pilot tells where they are not, and there the sample is dense.
Where a machine may be another one, it is a linear one on features that some rows span (Nystroem), whose cost
grows with the rows and no faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from sklearn.linear_model import Ridge

from screening.estimators.training import DualSolution, Training
from screening.metrics.ties import hashed

APPROXIMATIONS = ("none", "landmarks", "nystroem")
# Of the landmarks left after the rarest class, the share that rows near the boundary get.
NEAR_SHARE = 0.8
RARE_SHARE = 0.2
# Rows whose y f is below this may lose: the margin, and some for what the pilot does not know.
NEAR_MARGIN = 1.2
# Directions of the landmarks' kernel with less than this share of the largest are rounding.
LEAST_EIGENVALUE = 1e-10
# Rows that a linear machine on some hundred features learns from: more leave it where it is.
MOST_SPANNED = 30_000


@dataclass(frozen=True)
class Landmarks:
    """Row numbers, ascending, and how many rows each stands for.

    Within a class the weights sum to its rows; of two classes the commoner one's are then lowered until the
    rarer makes RARE_SHARE, as it does in a sub-sample: at one in a hundred the plain machine ranks nobody.
    """

    rows: np.ndarray
    weights: np.ndarray


Pilot = Callable[[Landmarks], np.ndarray]


def choose(
    x: np.ndarray, codes: np.ndarray, wanted: int, pilot: Pilot, seed: int
) -> Landmarks:
    """Landmarks among all rows.

    The rarest class is kept whole, up to an equal share; the rest is spread over the other classes. A pilot
    learns from a first sample, and then the rows near its boundary get most of the places. Rows are drawn in
    the order of a hash of their values, so that machines of several folds stand on many of the same rows. The
    `pilot` makes of first landmarks a mask over all rows: near the boundary of a machine trained on them.
    """
    order, strata = _order(x, seed), _strata(codes)
    first = _drawn(
        strata, _places([len(rows) for rows in strata], max(wanted // 2, 1)), order
    )
    near = pilot(_lifted(first, codes))
    finer, places = [], []
    for rows, count in zip(
        strata, _places([len(rows) for rows in strata], wanted), strict=True
    ):
        inside, outside = rows[near[rows]], rows[~near[rows]]
        dense = min(len(inside), max(round(NEAR_SHARE * count), count - len(outside)))
        finer += [inside, outside]
        places += [dense, min(len(outside), count - dense)]
    return _lifted(_drawn(finer, places, order), codes)


def spread(x: np.ndarray, codes: np.ndarray, wanted: int, seed: int) -> Landmarks:
    """Landmarks among all rows, as many of each class where there are so many; no pilot looks at them."""
    strata = _strata(codes)
    return _drawn(
        strata, _places([len(rows) for rows in strata], wanted), _order(x, seed)
    )


def _strata(codes: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(codes == m) for m in range(int(codes.max()) + 1)]


def _order(x: np.ndarray, seed: int) -> np.ndarray:
    return np.argsort(np.argsort(hashed(x, seed), kind="stable"), kind="stable")


def _lifted(chosen: Landmarks, codes: np.ndarray) -> Landmarks:
    counts = np.bincount(codes)
    if len(counts) != 2 or counts.min() >= RARE_SHARE * len(codes):
        return chosen
    common = codes[chosen.rows] == counts.argmax()
    down = counts.min() * (1.0 / RARE_SHARE - 1.0) / counts.max()
    return Landmarks(
        chosen.rows, np.where(common, down * chosen.weights, chosen.weights)
    )


def _places(sizes: list[int], wanted: int) -> list[int]:
    """Places for each class, the smallest class first: all its rows, up to an equal share of what is left."""
    places = [0] * len(sizes)
    left = wanted
    order = sorted(range(len(sizes)), key=lambda m: sizes[m])
    for turn, m in enumerate(order):
        places[m] = min(sizes[m], max(left // (len(order) - turn), 1))
        left -= places[m]
    return places


def _drawn(strata: list[np.ndarray], places: list[int], order: np.ndarray) -> Landmarks:
    """So many rows of each stratum, the first in the order, at least one where it has any."""
    rows, weights = [], []
    for stratum, count in zip(strata, places, strict=True):
        count = min(max(count, 1), len(stratum))
        if count:
            first = np.argpartition(order[stratum], count - 1)[:count]
            rows.append(stratum[first])
            weights.append(np.full(count, len(stratum) / count))
    together = np.concatenate(rows)
    ascending = np.argsort(together)
    return Landmarks(together[ascending], np.concatenate(weights)[ascending])


def check(approximation: str, n_landmarks: int, spans: bool) -> None:
    """Refuse what is no approximation (ValueError); `spans`: whether rows may span a machine's function."""
    if approximation not in APPROXIMATIONS:
        raise ValueError(
            f"approximation must be one of {', '.join(APPROXIMATIONS)}, got {approximation!r}"
        )
    if approximation == "nystroem" and not spans:
        raise ValueError(
            "approximation nystroem is of two-class machines without a factor and passes"
        )
    if (
        isinstance(n_landmarks, bool)
        or n_landmarks != int(n_landmarks)
        or n_landmarks < 2
    ):
        raise ValueError(
            f"n_landmarks must be a whole number >= 2, got {n_landmarks!r}"
        )


def solve_on_landmarks(training: Training, rows: np.ndarray) -> DualSolution:
    """Least-squares SVM (Suykens and Vandewalle 1999) in the span of some rows (Williams and Seeger 2001).

    With K_LL = U D U' over the landmarks, rows have the features K_xL U D^(-1/2), whose products are the
    kernel where it counts; the linear machine w on them decides by K_xL (U D^(-1/2) w).

    Parameters
    ----------
    training : Training
        Rows of the kernel matrix are computed when asked for; c scales them.
    rows : ndarray of int
        The landmarks.
    """
    c, everything = training.c, np.arange(len(training.labels))
    across = training.gram[np.ix_(everything, rows)]
    across *= c[rows]
    across *= c[:, None]
    values, directions = eigh(across[rows])
    kept = values > LEAST_EIGENVALUE * values[-1]
    features = directions[:, kept] / np.sqrt(values[kept])
    # 1/2 |w|^2 + costs (y - f)^2. It ranks as the squared hinge does, in a tenth of the time at any cost.
    machine = Ridge(alpha=0.5, solver="cholesky", copy_X=False)
    machine.fit(across @ features, training.labels, sample_weight=training.costs)
    weights = np.zeros((len(training.labels), 1))
    weights[rows, 0] = features @ machine.coef_
    intercept = np.array([machine.intercept_])
    return DualSolution(
        weights, intercept, np.zeros(weights.shape, bool), gap=0.0, n_iter=1
    )

"""Which candidate a search settles on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from screening.validation.criteria import criterion

DRAWS = 60


def pick(
    name: str,
    candidates: Sequence[dict[str, Any]],
    scores: Sequence[float],
    decisions: Sequence[np.ndarray],
    target: np.ndarray,
    seed: int,
) -> int:
    """Number of the candidate to use.

    Among settings of one recipe the best score wins, the first of equals. Between recipes (`auto`) the first
    recipe's best setting stays unless another's is ahead by more than one standard error of their difference,
    which a bootstrap of the held-out rows tells: with few positives the highest of many scores is mostly luck
    (the one-standard-error rule of Breiman et al. 1984).

    Parameters
    ----------
    name : str
        The criterion.
    candidates : sequence of dict
        The recipe of each under "recipe", where there are several.
    scores : sequence of float
    decisions : sequence of ndarray
        Held-out decision values of each candidate.
    target : ndarray of int, shape (n_rows,)
    seed : int
        Of the bootstrap.
    """
    # Rounding lets candidates that differ by noise in the last digits tie, whatever the machine.
    rounded = np.round(scores, 9)
    best = int(rounded.argmax())
    first = candidates[0].get("recipe")
    if candidates[best].get("recipe") == first:
        return best
    own = [i for i, candidate in enumerate(candidates) if candidate.get("recipe") == first]
    known = own[int(rounded[own].argmax())]
    rng = np.random.default_rng(seed)
    ahead = []
    for _ in range(DRAWS):
        rows = rng.integers(len(target), size=len(target))
        one, other = (criterion(name, decisions[i][rows], target[rows]) for i in (best, known))
        ahead.append(one - other)
    return best if scores[best] - scores[known] > np.std(ahead) else known

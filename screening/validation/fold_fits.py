"""What is fitted on all folds but one, and what it decides on the rows held out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.machines.base import Estimator
from screening.validation.candidates import Parameters
from screening.validation.encoded import EncodedRows

# Decisions kept beyond this number are float32: they are ranked, and compared to seven digits.
MOST_IN_FULL = 20_000_000


@dataclass(frozen=True)
class FoldFit:
    """The machines of one fold, one a setting, and their decisions on the rows held out.

    Parameters
    ----------
    rows : ndarray of int, shape (n_held_out,)
    machines : list of fitted estimators
    decisions : list of ndarray
        To choose by, as ``Rows.tried`` has them; of one setting in all, what its machine says by itself.
    seconds : (float, float)
        Of fitting one machine, and of scoring a thousand rows by it.
    """

    rows: np.ndarray
    machines: list[Estimator]
    decisions: list[np.ndarray]
    seconds: tuple[float, float]


def fit_fold(
    encoded: EncodedRows, held_out: np.ndarray, settings: Sequence[Parameters], n_settings: int | None = None
) -> FoldFit:
    """Fit a fold at each setting; `n_settings` are all that are tried, where these are a part of them."""
    rows = np.flatnonzero(held_out)
    x = np.ascontiguousarray(encoded.x[rows])
    competing = n_settings or len(settings)
    began = time.perf_counter()
    machines, decisions = encoded.tried(np.flatnonzero(~held_out), settings, x if competing > 1 else None)
    fitted = time.perf_counter()
    own = encoded.decisions(machines[0], x)
    scored = time.perf_counter() - fitted
    if competing == 1:
        decisions = [own]
    if encoded.x.shape[0] * own.shape[1] * competing > MOST_IN_FULL:
        decisions = [each.astype(np.float32) for each in decisions]
    return FoldFit(
        rows, machines, decisions, ((fitted - began) / len(settings), 1000 * scored / max(len(rows), 1))
    )

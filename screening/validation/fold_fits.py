"""What is fitted on all folds but one, and what it decides on the rows held out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from screening.validation.candidates import Parameters
from screening.validation.lesson import Rows

if TYPE_CHECKING:
    from screening.machines.fitted import Fitted

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
    seconds : (float, float)
        Of fitting one machine, and of scoring a thousand rows by it.
    """

    rows: np.ndarray
    machines: list[Fitted]
    decisions: list[np.ndarray]
    seconds: tuple[float, float]


def fit_fold(
    lesson: Rows, held_out: np.ndarray, settings: Sequence[Parameters], n_settings: int | None = None
) -> FoldFit:
    """Fit a fold at each setting; `n_settings` are all that are tried, where these are a part of them."""
    began = time.perf_counter()
    machines = lesson.fitted(np.flatnonzero(~held_out), settings)
    fitted = time.perf_counter()
    rows = np.flatnonzero(held_out)
    x = np.ascontiguousarray(lesson.x[rows])
    decisions = [lesson.decisions(machine, x) for machine in machines]
    scored = time.perf_counter() - fitted
    if lesson.x.shape[0] * decisions[0].shape[1] * (n_settings or len(settings)) > MOST_IN_FULL:
        decisions = [each.astype(np.float32) for each in decisions]
    n = len(settings)
    return FoldFit(rows, machines, decisions, ((fitted - began) / n, 1000 * scored / n / max(len(rows), 1)))

"""The rescaled kernel K~(x, y) = c(x) c(y) K(x, y), written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# Far from every bump c is 0, and K~ would lose its rank there: c stays above this share of its largest.
FLOOR = 1e-12
# The largest log c over the training rows lies within the one, log c of a row to score below the other.
REACH, MOST = 100.0, 300.0


@dataclass(frozen=True)
class Scale:
    """How log c is scaled and bounded before it becomes c, one number an output."""

    shift: np.ndarray  # (1,) or (n_outputs,): subtracted from log c
    floor: np.ndarray  # least log c, ``shift`` subtracted

    @classmethod
    def over(cls, before: np.ndarray, now: np.ndarray, normalise: bool) -> Scale:
        """The scale from log c of the passes before and log of a factor, (n_rows, 1 or n_outputs).

        To `normalise` subtracts the log of this factor's root mean square, and not only what keeps c finite.
        """
        every = before + _checked(now)
        top = every.max(axis=0)
        if not np.isfinite(top).all():
            raise ValueError(_NOT_FINITE)
        size = log_sum_exp(2.0 * now.T, np.full(len(now), 1.0 / len(now))) / 2.0 if normalise else np.zeros(1)
        largest = np.clip(top - size, -REACH, REACH)
        return cls(top - largest, largest + np.log(FLOOR))

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which ``from_state`` makes the same scale."""
        return {"shift": self.shift, "floor": self.floor}

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> Scale:
        """Inverse of ``state``; KeyError where an array is missing."""
        return cls(state["shift"], state["floor"])

    def fits(self, n_outputs: int) -> bool:
        return all(each.shape in ((1,), (n_outputs,)) for each in (self.shift, self.floor))

    def added(self, before: np.ndarray, now: np.ndarray) -> np.ndarray:
        """log c from the passes before and this factor at any rows, shifted and bounded.

        ValueError where a value is not a number: the factor was given a decision or a distance that is not.
        """
        every = before + _checked(now) - self.shift
        return np.minimum(np.maximum(every, self.floor), MOST)


_NOT_FINITE = "the factor c(x) is not finite everywhere; check its parameters and the rows' scale"


def _checked(log_c: np.ndarray) -> np.ndarray:
    if not (log_c < np.inf).all():
        raise ValueError(_NOT_FINITE)
    return log_c


def log_sum_exp(exponents: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """log sum_k heights_k exp(exponents_nk), (n,), without underflow; -inf where no height is > 0."""
    used = heights > 0
    terms = exponents[:, used] + np.log(heights[used])
    largest = terms.max(axis=1, initial=-np.inf, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(terms - largest).sum(axis=1)) + largest[:, 0]


def rescaled(gram: np.ndarray, c_rows: np.ndarray, c_columns: np.ndarray) -> np.ndarray:
    """K~ as an array of the shape of ``gram``; solvers that can leave K as it is should not call this."""
    return c_rows[:, None] * gram * c_columns


def rescaled_distances(
    gram: np.ndarray, c_rows: np.ndarray, c_columns: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Squared feature-space distances under K~: K~(x, x) + K~(z, z) - 2 K~(x, z).

    `rows` and `columns` are the diagonals K(x, x) and K(z, z).
    """
    squared = rescaled(gram, -2.0 * c_rows, c_columns)
    squared += (np.square(c_rows) * rows)[:, None]
    squared += np.square(c_columns) * columns
    return np.maximum(squared, 0.0, out=squared)

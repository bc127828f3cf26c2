"""How often each training row counts: scikit-learn's sample weights and class weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

ClassWeight = Mapping[Any, float] | str | None
MOST_REPEATED = 20_000


@dataclass(frozen=True)
class Counted:
    """Rows that count at all, and how much."""

    rows: np.ndarray  # row numbers in the table given
    given: np.ndarray | None  # the sample weights; None where every row counts once
    weights: np.ndarray  # sample weight times class weight
    codes: np.ndarray | None
    class_weight: dict[int, float] | None = None  # by class number
    whole: bool = False  # whether they are all rows of the table, each once

    def of(self, array: np.ndarray) -> np.ndarray:
        """Their part of an array over the table; the array itself where all rows count."""
        return array if self.whole else array[self.rows]

    def of_class(self, codes: np.ndarray) -> np.ndarray | float:
        """The class weight of rows of these classes."""
        return 1.0 if self.class_weight is None else np.array(list(self.class_weight.values()))[codes]

    def per_class(self, n_classes: int) -> np.ndarray:
        """How many rows of each class there are, by their sample weights, shape (n_classes,)."""
        assert self.codes is not None
        return np.bincount(self.codes, self.given, minlength=n_classes)


def resolve_sample_weight(
    sample_weight: ArrayLike | None,
    x: np.ndarray,
    codes: np.ndarray | None = None,
    class_weight: ClassWeight = None,
    classes: np.ndarray | None = None,
    repeat: bool = False,
) -> Counted:
    """The rows of x that count, a row of weight 0 being none.

    With `repeat`, rows whose weights are whole numbers stand there so many times: what counts neighbours, as
    factors and remedies do, then sees as many as were meant. Other weights change costs only. ValueError
    where weights are negative or not finite or leave a class without rows, or where a class weight is neither
    positive nor of a class.
    """
    given = None
    rows = np.arange(len(x))
    if sample_weight is not None:
        given = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        rows = np.flatnonzero(given > 0)
        given = given[rows]
        if repeat and (given == np.rint(given)).all() and given.sum() <= MOST_REPEATED:
            rows, given = np.repeat(rows, given.astype(int)), None
        if not len(rows):
            raise ValueError("sample_weight is 0 for every row")
    weights = np.ones(len(rows)) if given is None else given
    if codes is None:
        return Counted(rows, given, weights, None, whole=sample_weight is None)
    if sample_weight is not None:
        codes = codes[rows]
        if classes is not None and len(np.unique(codes)) < len(classes):
            raise ValueError("sample_weight leaves a class without rows")
    by_code = None
    if class_weight is not None and classes is not None:
        per_class = compute_class_weight(class_weight, classes=classes, y=classes[codes], sample_weight=given)
        if not (np.isfinite(per_class) & (per_class > 0)).all():
            raise ValueError(f"class_weight must be > 0 for every class, got {class_weight!r}")
        weights = weights * per_class[codes]
        by_code = dict(enumerate(per_class.tolist()))
    return Counted(rows, given, weights, codes, by_code, sample_weight is None)

"""One convention for every machine's decision values: higher means more suspicious, one column a class."""

from __future__ import annotations

import numpy as np

from screening.machines.base import Estimator
from screening.machines.multi_class import MultiClassSVM


def oriented_decisions(estimator: Estimator, encoded: np.ndarray, kind: str, n_classes: int) -> np.ndarray:
    """Decision values of encoded rows, turned so that higher means more suspicious.

    Parameters
    ----------
    estimator : fitted estimator of a recipe
    encoded : ndarray, shape (n_rows, n_encoded)
    kind : {"one_class", "two_class", "multi_class", "baseline"}
    n_classes : int
        Classes of the task.

    Returns
    -------
    ndarray, shape (n_rows, 1), or (n_rows, n_classes) for a multi-class machine
    """
    if isinstance(estimator, MultiClassSVM):
        own = estimator.class_scores(encoded)
    else:
        own = estimator.decision_function(encoded)
    return oriented(np.asarray(own, dtype=float), estimator, kind, n_classes)


def oriented(scores: np.ndarray, estimator: Estimator, kind: str, n_classes: int) -> np.ndarray:
    """An estimator's own scores, (n_rows,) or (n_rows, n_outputs), turned the same way.

    A multi-class estimator fitted on rows without some class gives that class the row's lowest score.
    """
    if kind != "multi_class" and n_classes == 2:
        scores = scores.reshape(len(scores), 1)
        return -scores if kind == "one_class" else scores
    if scores.ndim == 1:  # a baseline that met two classes only
        scores = np.column_stack([-scores, scores])
    if scores.shape[1] == n_classes:
        return scores
    everywhere = np.repeat(scores.min(axis=1, keepdims=True), n_classes, axis=1)
    everywhere[:, np.asarray(estimator.classes_, dtype=int)] = scores
    return everywhere

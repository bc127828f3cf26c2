"""One convention for every machine's decision values: higher means more suspicious, one column a class."""

from __future__ import annotations

from typing import Any

import numpy as np


def suspicion(estimator: Any, encoded: np.ndarray, machine: str, n_classes: int) -> np.ndarray:
    """Decision values of encoded rows, turned so that higher means more suspicious.

    Parameters
    ----------
    estimator : fitted estimator of a recipe
    encoded : ndarray, shape (n_rows, n_encoded)
    machine : {"one_class", "two_class", "multi_class", "baseline"}
    n_classes : int
        Classes of the task; a multi-class estimator fitted on rows without some of them gives those the
        row's lowest decision.

    Returns
    -------
    ndarray, shape (n_rows, 1), or (n_rows, n_classes) for a multi-class machine
    """
    if machine != "multi_class":
        return oriented(np.asarray(estimator.decision_function(encoded), dtype=float)[:, np.newaxis], machine)
    scores = np.asarray(estimator.class_scores(encoded), dtype=float)
    if scores.shape[1] == n_classes:
        return scores
    everywhere = np.repeat(scores.min(axis=1, keepdims=True), n_classes, axis=1)
    everywhere[:, np.asarray(estimator.classes_, dtype=int)] = scores
    return everywhere


def oriented(decisions: np.ndarray, machine: str) -> np.ndarray:
    """Decisions turned so that higher is more suspicious: a one-class machine's say how normal a row is."""
    return -decisions if machine == "one_class" else decisions

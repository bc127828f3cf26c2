"""Outcomes of a method for tests of comparisons."""

from __future__ import annotations

import numpy as np

from screening.validation.outcome import Outcome


def outcome(scores, rows=None, threshold=0.5) -> Outcome:
    """A binary outcome, its rows dealt to five folds in turn."""
    scores = np.asarray(scores, float)[:, None]
    rows = np.arange(len(scores)) if rows is None else rows
    facts = {
        "n_candidates": 1,
        "sensitivity": [0.9],
        "points": [],
        "chosen": {},
        "fit_seconds": 0.0,
        "score_seconds": 0.0,
        "sv_share": None,
    }
    return Outcome(
        rows=rows,
        fold=np.arange(len(scores)) % 5,
        scores=scores,
        thresholds=np.array([threshold]),
        own=scores > 0,
        predicted=np.full(len(scores), -1),
        facts=facts,
    )

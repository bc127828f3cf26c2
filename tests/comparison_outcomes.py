"""Outcomes of a fold for tests of comparisons."""

from __future__ import annotations

import numpy as np

from screening.comparing.outcome import Outcome


def outcome(scores, rows=None, repeat=0, fold=0, threshold=0.5) -> Outcome:
    scores = np.asarray(scores, float)[:, None]
    rows = np.arange(len(scores)) if rows is None else rows
    facts = {
        "chosen": {},
        "fit_seconds": 0.0,
        "score_seconds": 0.0,
        "n_train": 1,
        "n_test": 1,
        "sv_share": None,
    }
    return Outcome(
        repeat, fold, rows, scores, np.array([threshold]), scores > 0, np.full(len(scores), -1), facts
    )

"""scikit-learn's `TunedThresholdClassifierCV`, asked for a sensitivity."""

from __future__ import annotations

import numpy as np
import pandas as pd
from promises.answers import ASKED, Answer, Past, logistic
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import TunedThresholdClassifierCV

from screening.schemas.base import Estimate

TITLE = "`TunedThresholdClassifierCV`, specificity at sensitivity 0.9"


def specificity_at_sensitivity(case: np.ndarray, flagged: np.ndarray) -> float:
    """Return the specificity, or sensitivity - 1 if that is below what is asked."""
    sensitivity = recall_score(case, flagged)
    if sensitivity < ASKED:
        return float(sensitivity - 1)
    return float(recall_score(case, flagged, pos_label=0))


def flag(past: Past, new: pd.DataFrame) -> Answer:
    """Promise what was asked: scikit-learn states no figure and no interval."""
    tuned = TunedThresholdClassifierCV(
        logistic(past),
        scoring=make_scorer(specificity_at_sensitivity),
        cv=past.folds(),
    )
    tuned.fit(past.rows, past.case)
    return Answer(tuned.predict(new) == 1, Estimate(ASKED))

"""scikit-learn's `TunedThresholdClassifierCV` with its default score."""

from __future__ import annotations

import pandas as pd
from promises.answers import Answer, Past, logistic, observed_sensitivity
from sklearn.model_selection import TunedThresholdClassifierCV

TITLE = "`TunedThresholdClassifierCV`, balanced accuracy"


def _tuned(past: Past) -> TunedThresholdClassifierCV:
    tuned = TunedThresholdClassifierCV(logistic(past), cv=past.folds())
    return tuned.fit(past.rows, past.case)


def flag(past: Past, new: pd.DataFrame) -> Answer:
    """Promise the sensitivity on a held-out third, and flag by all past rows."""
    fitting, testing = past.held_apart()
    seen = _tuned(fitting).predict(testing.rows) == 1
    return Answer(_tuned(past).predict(new) == 1, observed_sensitivity(testing, seen))

"""A threshold chosen on the rows that the classifier was fitted on."""

from __future__ import annotations

import numpy as np
import pandas as pd
from promises.answers import Answer, Past, observed_sensitivity
from sklearn.metrics import roc_curve
from sklearn.pipeline import Pipeline


def by_youden(model: Pipeline, past: Past, new: pd.DataFrame) -> Answer:
    """Flag at the threshold with the largest sensitivity + specificity in training."""
    model.fit(past.rows, past.case)
    chances = model.predict_proba(past.rows)[:, 1]
    false_rate, true_rate, thresholds = roc_curve(past.case, chances)
    threshold = thresholds[np.argmax(true_rate - false_rate)]
    return Answer(
        model.predict_proba(new)[:, 1] >= threshold,
        observed_sensitivity(past, chances >= threshold),
    )

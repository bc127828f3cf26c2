"""Logistic regression, threshold by Youden's index on its training rows."""

from __future__ import annotations

import pandas as pd
from promises.answers import Answer, Past, logistic
from promises.training_threshold import by_youden

TITLE = "Youden on the training set"


def flag(past: Past, new: pd.DataFrame) -> Answer:
    """Promise the sensitivity on the training rows."""
    return by_youden(logistic(past), past, new)

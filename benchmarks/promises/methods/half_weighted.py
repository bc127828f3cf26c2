"""Logistic regression with balanced class weights, flagged at 0.5."""

from __future__ import annotations

import pandas as pd
from promises.answers import Answer, Past, logistic, observed_sensitivity
from sklearn.model_selection import cross_val_predict

TITLE = "threshold 0.5, balanced class weights"


def flag(past: Past, new: pd.DataFrame) -> Answer:
    """Promise the sensitivity of cross-validation, which nothing was chosen on."""
    model = logistic(past, class_weight="balanced")
    held_out = cross_val_predict(model, past.rows, past.case, cv=past.folds())
    model.fit(past.rows, past.case)
    return Answer(model.predict(new) == 1, observed_sensitivity(past, held_out == 1))

"""Logistic regression, threshold by the cases of a third that was held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
from promises.answers import ASKED, Answer, Past, logistic, observed_sensitivity

TITLE = "quantile of the cases of a held-out third"


def flag(past: Past, new: pd.DataFrame) -> Answer:
    """Promise the sensitivity on the third that gave the threshold."""
    fitting, calibrating = past.held_apart()
    model = logistic(past).fit(fitting.rows, fitting.case)
    chances = model.predict_proba(calibrating.rows)[:, 1]
    of_cases = chances[calibrating.table.case]
    threshold = np.quantile(of_cases, 1 - ASKED, method="lower")
    return Answer(
        model.predict_proba(new)[:, 1] >= threshold,
        observed_sensitivity(calibrating, chances >= threshold),
    )

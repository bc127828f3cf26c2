"""Conformal classification by class (Mondrian), as `crepes` offers it."""

from __future__ import annotations

import crepes
import numpy as np
import pandas as pd
from promises.answers import ASKED, Answer, Past, logistic

from screening.schemas.base import Estimate

TITLE = "crepes, class-conditional conformal"


def flag(past: Past, new: pd.DataFrame) -> Answer:
    """Flag rows whose prediction set contains the case.

    The theory promises the level that was asked, on average over calibration rows.
    """
    fitting, calibrating = past.held_apart()
    model = crepes.WrapClassifier(logistic(past))
    model.fit(fitting.rows, fitting.case)
    model.calibrate(calibrating.rows, calibrating.case, class_cond=True, seed=past.seed)
    in_set = model.predict_set(
        new, labels=False, confidence=ASKED, smoothing=False, seed=past.seed
    )
    return Answer(np.asarray(in_set)[:, 1] == 1, Estimate(ASKED))

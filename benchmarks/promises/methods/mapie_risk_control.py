"""Risk control of recall (Learn then Test), as MAPIE offers it by default."""

from __future__ import annotations

import mapie.risk_control
import numpy as np
import pandas as pd
from promises.answers import ASKED, Answer, NoAnswer, Past, logistic

from screening.schemas.base import Estimate

TITLE = "MAPIE, risk control of recall"


def flag(past: Past, new: pd.DataFrame, fwer_method: str = "bonferroni_holm") -> Answer:
    """Promise at least the recall that was asked, with a confidence of 0.95.

    Raises
    ------
    NoAnswer
        If no threshold controls the recall with so few calibration rows.
    """
    fitting, calibrating = past.held_apart()
    model = logistic(past).fit(fitting.rows, fitting.case)
    controller = mapie.risk_control.BinaryClassificationController(
        model.predict_proba,
        risk="recall",
        target_level=ASKED,
        confidence_level=0.95,
        fwer_method=fwer_method,
    )
    controller.calibrate(calibrating.rows, calibrating.case)
    if controller.best_predict_param is None:
        raise NoAnswer("no threshold controls the recall with so few cases")
    return Answer(np.asarray(controller.predict(new)) == 1, Estimate(ASKED, ASKED, 1.0))

"""The chance of the condition that belongs to a row's score, the same wherever it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from screening.errors import ModelError
from screening.statistics.calibration import chances
from screening.statistics.operating_point import FLAG_EVERYTHING

if TYPE_CHECKING:
    from screening.storage.model import Model

CHANCES = ("chance", "chance_low", "chance_high")


def refuse_unearned(model: Model) -> None:
    """ModelError where there is not one chance a row: several watched classes, calibration not earned."""
    if len(model.watched) > 1:
        raise ModelError("several classes are watched; score_frame has the chance of the one that is flagged")
    calibration = model.facts.validation.calibration.get(model.watched[0])
    if calibration is None or not calibration.earned:
        reason = calibration.reason if calibration else None
        raise ModelError(f"its scores are no probabilities: {reason or 'not calibrated'}")


class Chances:
    """Chances of the watched classes that have earned a calibration.

    Parameters
    ----------
    model : Model

    Attributes
    ----------
    earned : bool
        Whether any class has; nothing is written of chances where none has.
    """

    def __init__(self, model: Model):
        self.calibrations = [model.facts.validation.calibration.get(name) for name in model.watched]
        self.thresholds = model.thresholds
        self.earned = any(each is not None and each.earned for each in self.calibrations)

    def of(self, score: np.ndarray, column: np.ndarray) -> dict[str, np.ndarray]:
        """Chance with its interval by the names of `CHANCES`, each shape (n_rows,); NaN where none is earned.

        Parameters
        ----------
        score : ndarray, shape (n_rows,)
            As `scores.parquet` has it.
        column : ndarray of int, shape (n_rows,)
            The watched class that each score is of.
        """
        found = np.full((len(CHANCES), len(score)), np.nan)
        for m, (calibration, threshold) in enumerate(zip(self.calibrations, self.thresholds, strict=True)):
            # A class of which every row is flagged has no excess to go back from to its score.
            rows = np.flatnonzero(column == m) if threshold > FLAG_EVERYTHING else np.empty(0, int)
            # With several watched classes the score is the excess over the class's own threshold.
            own = score[rows] + (threshold if len(self.thresholds) > 1 else 0.0)
            found[:, rows] = chances(calibration, own)
        return dict(zip(CHANCES, found, strict=True))

    def listed(self, score: np.ndarray, column: np.ndarray) -> list[dict[str, float | None]]:
        """The same row by row, as JSON holds it."""
        found = self.of(score, column)
        return [
            {name: None if np.isnan(values[i]) else float(values[i]) for name, values in found.items()}
            for i in range(len(score))
        ]

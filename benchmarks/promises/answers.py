"""What every method is given, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from promises.public_tables import PublicTable
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from screening.metrics.groups import codes_of
from screening.metrics.intervals import share_range
from screening.schemas.base import UNDEFINED, Estimate

ASKED = 0.9
"""Sensitivity that is asked of every method that can be asked."""
FOLDS = 5


class NoAnswer(Exception):
    """A method gives no threshold for a table, and says why."""


@dataclass(frozen=True)
class Answer:
    """What a method promises, and what it does to new rows.

    Attributes
    ----------
    flagged : bool ndarray of shape (n_new,)
        New rows that the method flags.
    promised : Estimate
        Sensitivity as a user of the method would state it. The limits are those of
        its 95 % interval; None if the method has no interval.
    """

    flagged: np.ndarray
    promised: Estimate = field(default=UNDEFINED)


@dataclass(frozen=True)
class Past:
    """The rows that a method may learn from.

    Attributes
    ----------
    table : PublicTable
    seed : int
        Of the method's folds and trees.
    """

    table: PublicTable
    seed: int = 0

    @property
    def rows(self) -> pd.DataFrame:
        """Return the features."""
        return self.table.rows

    @property
    def case(self) -> np.ndarray:
        """Return the outcome, 1 for a case, (n_rows,)."""
        return self.table.case.astype(int)

    def folds(self, n_folds: int = FOLDS) -> Sequence[tuple[np.ndarray, np.ndarray]]:
        """Return folds by case, with patients whole: row numbers to fit, to test."""
        if self.table.group is None:
            by_row = StratifiedKFold(n_folds, shuffle=True, random_state=self.seed)
            return list(by_row.split(self.rows, self.case))
        by_patient = StratifiedGroupKFold(n_folds, shuffle=True, random_state=self.seed)
        return list(by_patient.split(self.rows, self.case, self.table.group))

    def held_apart(self, n_folds: int = 3) -> tuple[Past, Past]:
        """Return rows to fit, and a third to calibrate on, with patients whole."""
        calibration = np.zeros(len(self.case), dtype=bool)
        calibration[self.folds(n_folds)[0][1]] = True
        fitting, calibrating = map(self.table.take, (~calibration, calibration))
        return Past(fitting, self.seed), Past(calibrating, self.seed)


def _encoded(rows: pd.DataFrame) -> object:
    """Return a transformer: numbers imputed and scaled, texts as indicators."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore")
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")(rows)),
        (texts, make_column_selector(dtype_exclude="number")(rows)),
    )


def logistic(past: Past, **settings: object) -> Pipeline:
    """Return the unfitted logistic regression that all methods of others share."""
    return make_pipeline(
        _encoded(past.rows), LogisticRegression(max_iter=5000, **settings)
    )


def forest(past: Past) -> Pipeline:
    """Return an unfitted random forest of scikit-learn's defaults."""
    return make_pipeline(
        _encoded(past.rows), RandomForestClassifier(random_state=past.seed)
    )


def observed_sensitivity(past: Past, flagged: np.ndarray) -> Estimate:
    """Return the share of past cases that are flagged, with Wilson's interval.

    Rows of one patient are down-weighted by their design effect.
    """
    return sensitivity_of(past.table, flagged)


def sensitivity_of(table: PublicTable, flagged: np.ndarray) -> Estimate:
    """Return the share of a table's cases that are flagged, with Wilson's interval."""
    patients = None if table.group is None else codes_of(table.group[table.case])
    return share_range(flagged[table.case].astype(bool), patients)

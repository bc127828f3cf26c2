"""Columns that may be the outcome itself, and models that are too good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort, labels_of
from screening.data.column_names import is_after_outcome
from screening.errors import RecipeError, UsageError
from screening.io.columns import absent
from screening.metrics.ranking import auroc, auroc_either_way, auroc_of_levels
from screening.model_selection.folds import Study
from screening.model_selection.held_out import held_out_by
from screening.model_selection.scores import HeldOutScores
from screening.model_selection.task import Task
from screening.recipes.building import load_recipe
from screening.schemas.model import Leak

# AUROC of one column from which it is rarely known before the outcome.
_SUSPICIOUS_AUROC = 0.99
# A category with more levels than this, and than this share of the rows, is like an id.
_MANY_LEVELS = 20
_MANY_LEVELS_SHARE = 0.5
# AUROC of missingness from which it reflects how patients were cared for.
_MISSINGNESS_AUROC = 0.65
# AUROC from which a column that is called `time`, and nothing more, is named.
_TIME_AUROC = 0.65


def leaks(cohort: Cohort, task: Task) -> list[Leak]:
    """Return columns to check before the model is believed.

    They predict too much, or their names say that they come after the outcome. No
    patient's value is in the result.
    """
    watched = task.is_watched(labels_of(cohort)).T
    found: list[Leak] = []
    for name in cohort.contract.features:
        found += _column_leaks(cohort, name, watched)
    return found


def _column_leaks(cohort: Cohort, name: str, watched: np.ndarray) -> list[Leak]:
    """Return what is suspicious about one column.

    `watched` (n_watched, n_rows) is the mask of rows of each watched class.
    """
    values = cohort.values[name]
    missing = absent(values)
    alone = max(_column_alone(cohort, name, positive) for positive in watched)
    missingness = max(
        auroc_either_way(missing.astype(float), positive) for positive in watched
    )
    n_levels = 0
    if cohort.contract.features[name].type == "category":
        n_levels = len(set(values[~missing].tolist()))
    is_like_id = n_levels > _MANY_LEVELS
    is_like_id = is_like_id and n_levels > _MANY_LEVELS_SHARE * (~missing).sum()
    found = []
    if is_like_id:
        sentence = f"{name}: {n_levels} categories, nearly one a row, like an id"
        found.append(_leak("nearly_unique", name, float(n_levels), sentence))
    elif alone > _SUSPICIOUS_AUROC:
        sentence = (
            f"{name}: alone it ranks with AUROC {alone:.3f}; is it known before the "
            "outcome?"
        )
        found.append(_leak("ranks_alone", name, alone, sentence))
    if missingness >= _MISSINGNESS_AUROC:
        sentence = (
            f"{name}: missingness alone predicts the outcome (AUROC "
            f"{missingness:.2f}): possible care-process leakage"
        )
        found.append(_leak("missing_tells", name, missingness, sentence))
    if is_after_outcome(name, or_any_time=alone >= _TIME_AUROC):
        sentence = (
            f"{name}: by its name it is known only after the outcome (follow-up, "
            "discharge); is it?"
        )
        found.append(_leak("named_after", name, alone, sentence))
    return found


def _leak(code: str, column: str, figure: float, sentence: str) -> Leak:
    return Leak(code=code, column=column, figure=figure, said=sentence)


def _column_alone(cohort: Cohort, name: str, positive: np.ndarray) -> float:
    """Return the AUROC of one column, in the better direction.

    Missing values rank in the middle. `positive` is a mask of shape (n_rows,).
    """
    values = cohort.values[name]
    if cohort.contract.features[name].type == "category":
        levels, _ = pd.factorize(values, use_na_sentinel=False)
        return auroc_of_levels(levels, positive)
    missing = absent(values)
    median = 0.0 if missing.all() else np.nanmedian(values)
    return auroc_either_way(np.where(missing, median, values), positive)


def before_the_outcome(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """Return the cohort without columns that exist only after the outcome.

    Also the names of these columns, which the contract declares.
    """
    late = []
    for name, feature in cohort.contract.features.items():
        if feature.available == "after":
            late.append(name)
    if late:
        cohort = _without_columns(cohort, late)
    return cohort, late


def _without_columns(cohort: Cohort, columns: Sequence[str]) -> Cohort:
    features = {
        name: feature
        for name, feature in cohort.contract.features.items()
        if name not in columns
    }
    contract = cohort.contract.model_copy(update={"features": features})
    values = {name: cohort.values[name] for name in features}
    return replace(cohort, contract=contract, values=values)


# A column carries the model if its AUROC is at least this, and this share of what the
# model has above chance.
_CARRYING_AUROC = 0.85
_CARRYING_SHARE = 0.95
# AUROC that models rarely exceed.
_PERFECT_AUROC = 0.98
# Share of non-cases that models rarely clear at this sensitivity.
_PERFECT_SPECIFICITY = 0.9995
_SENSITIVITY = 0.9
# AUROC of a column that may explain a perfect model.
_EXPLAINING_AUROC = 0.75
# Columns that are named as an explanation at most.
_MAX_COLUMNS = 3
# With fewer columns each one carries the model by their number alone.
_MIN_COLUMNS = 3


@dataclass(frozen=True)
class _TooGood:
    """A ranking that is too good, of one watched class.

    Parameters
    ----------
    auroc : float
    cleared : float
        Share of non-cases below the threshold with a sensitivity of 90 %.
    alone : dict of str to float
        AUROC of each column alone.
    explanations : list of list of str
        Columns that may explain it, to be tried in turn.
    """

    auroc: float
    cleared: float
    alone: dict[str, float]
    explanations: list[list[str]]


def too_good(study: Study, held_out: HeldOutScores) -> list[Leak]:
    """Return what would explain rankings that are too good to be true.

    Parameters
    ----------
    study : Study
    held_out : HeldOutScores
        The model's scores of held-out rows.

    Returns
    -------
    list of Leak
        One per such watched class, with the AUROC without the columns it names, or the
        model's if no column is left.
    """
    found = []
    for m, name in enumerate(study.task.watched):
        positive = held_out.watched[:, m]
        ranking = _suspicious_ranking(study.sample, held_out.scores[:, m], positive)
        if ranking is None:
            continue
        # Without the first columns it may be too good still: then more explain it.
        for columns in ranking.explanations:
            left = _auroc_without(study, columns, positive)
            if left is None or left <= _PERFECT_AUROC:
                break
        of_class = f" for {name}" if study.task.kind == "multi" else ""
        sentence = _explanation(ranking, columns, left, of_class)
        figure = ranking.auroc if left is None else left
        found.append(_leak("too_good", columns[0], figure, sentence))
    return found


def _suspicious_ranking(
    cohort: Cohort, scores: np.ndarray, positive: np.ndarray
) -> _TooGood | None:
    """Return a ranking of one class if it is too good, None otherwise."""
    whole = auroc(scores, positive)
    alone = {
        column: _column_alone(cohort, column, positive)
        for column in cohort.contract.features
    }
    threshold = np.quantile(scores[positive], 1 - _SENSITIVITY, method="lower")
    cleared = float(np.mean(scores[~positive] < threshold))
    perfect = whole > _PERFECT_AUROC or cleared >= _PERFECT_SPECIFICITY
    least = max(_CARRYING_AUROC, 0.5 + _CARRYING_SHARE * (whole - 0.5))
    carrying = _columns_from(alone, least)
    if not perfect and (not carrying or len(alone) < _MIN_COLUMNS):
        return None
    explaining = _columns_from(alone, _EXPLAINING_AUROC)
    if not explaining:
        explaining = _columns_from(alone, 0.0)
    explanations = [carrying[:_MAX_COLUMNS], explaining[:_MAX_COLUMNS]]
    return _TooGood(
        auroc=whole,
        cleared=cleared,
        alone=alone,
        explanations=[columns for columns in explanations if columns],
    )


def _columns_from(alone: dict[str, float], least: float) -> list[str]:
    """Return the columns with at least this AUROC alone, the best first."""
    ranked = sorted(alone, key=lambda column: -alone[column])
    return [column for column in ranked if alone[column] >= least]


def _explanation(
    ranking: _TooGood, columns: Sequence[str], left: float | None, of_class: str
) -> str:
    areas = " and ".join([f"{ranking.alone[column]:.3f}" for column in columns])
    sentence = (
        f"{', '.join(columns)}: alone AUROC {areas}, the whole model{of_class} has "
        f"{ranking.auroc:.3f}"
    )
    if ranking.cleared >= _PERFECT_SPECIFICITY:
        sentence += (
            f" and flags no other row where it finds {_SENSITIVITY:.0%} of the cases"
        )
    if left is not None:
        them = "it" if len(columns) == 1 else "them"
        sentence += (
            f"; without {them} logistic regression on the same folds has {left:.3f}"
        )
    return sentence + "; known before the outcome?"


def _auroc_without(
    study: Study, columns: Sequence[str], positive: np.ndarray
) -> float | None:
    """Return the AUROC of logistic regression on the same folds without some columns.

    None if no column is left, or it cannot be fitted.
    """
    sample = _without_columns(study.sample, columns)
    if not sample.contract.features:
        return None
    sample = replace(sample, label=np.where(positive, "1", "0").astype(object))
    task = Task(
        kind="binary",
        label="label",
        positive=["1"],
        classes=["negative", "1"],
        watched=["1"],
    )
    single_repeat = replace(
        study, sample=sample, task=task, fold=study.fold[:1], params={}, search=1
    )
    try:
        held_out = held_out_by(single_repeat, load_recipe("logistic"))
    except (RecipeError, UsageError):
        return None
    decisions = held_out.decisions.mean(axis=0, dtype=float)
    return float(auroc(decisions[:, 0], positive))

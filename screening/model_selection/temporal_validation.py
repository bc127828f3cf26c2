"""Temporal validation: machines of the past score the rows that came after."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.errors import CohortError, RecipeError, UsageError
from screening.metrics.ties import number_ties
from screening.model_selection.folds import Study, split_study
from screening.model_selection.held_out import (
    HeldOutDecisions,
    encode,
    plan_method,
)
from screening.model_selection.plans import Plan
from screening.model_selection.scores import AFTER, HeldOutScores, TemporalValidation
from screening.recipes.recipe import Recipe
from screening.schemas.validation import Forward

# Share of the rows that are the past.
PAST_SHARE = 0.7
# Cases that each side of the cut needs.
FEWEST_CASES = 5


def split_by_time(
    cohort: Cohort, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, str]:
    """Split rows into the past and what came after; also return the day of the cut.

    The past is the first 70 % of the rows; the day is YYYY-MM-DD. Days and groups are
    kept whole: a group that reaches over the cut belongs to the past, and so does a row
    without a date.
    """
    days = pd.Series(cohort.days)
    dated = days.notna().to_numpy()
    if not dated.any():
        raise UsageError("no row has a date")
    first_days = days
    if groups is not None:
        first_days = days.groupby(groups).transform("min")
    first = first_days.to_numpy("datetime64[D]")
    n_dated = int(dated.sum())
    n_past = min(int(PAST_SHARE * n_dated), n_dated - 1)
    cut = np.sort(first[dated])[n_past]
    after = dated & (first >= cut)
    return np.flatnonzero(~after), np.flatnonzero(after), str(cut)


def validate_later(
    study: Study, recipe: Recipe, memory: int | None
) -> Plan[TemporalValidation]:
    """Hold rows of the past out, and score with its machines what came after.

    Everything but the choice of a threshold is repeated on the past alone. A model
    without cases needs none on either side of the cut: the share flagged is compared.
    The outcome is empty unless it is asked for, and for rows without dates. `memory` is
    that of ``encode``.
    """
    cohort = study.sample
    if cohort.time is None or not study.validation.forward:
        return TemporalValidation()
    try:
        past, later, cut = split_by_time(cohort, study.groups)
        facts = Forward(cut=cut, n_past=len(past), n_later=len(later), reason=None)
        if study.without_cases is None:
            reason = _too_few_cases(study, past, later)
            if reason is not None:
                return TemporalValidation(facts.replace(classes={}, reason=reason))
        earlier = _study_of_past(study, past)
        encoded = encode(earlier, recipe, memory)
        held_out = yield from plan_method(earlier, recipe, encoded)
        x = held_out.encoder.transform(cohort.values)
    except (UsageError, CohortError, RecipeError) as error:
        reason = f"training on the past alone failed: {error}"
        return TemporalValidation(Forward(reason=reason))
    scores = _scores_of_all(study, earlier, held_out, past, x)
    return TemporalValidation(facts, scores)


def _too_few_cases(study: Study, past: np.ndarray, later: np.ndarray) -> str | None:
    """Return why a side of the cut has too few cases, None if both have enough.

    UsageError if a class is missing in the past.
    """
    n_cases = [study.watched[rows].sum(axis=0) for rows in (past, later)]
    fewest = int(np.min(n_cases))
    if fewest < FEWEST_CASES:
        return f"one side of the cut has {fewest} cases, but {FEWEST_CASES} are needed"
    classes_of_past = np.unique(study.target[past])
    if len(classes_of_past) < len(study.task.classes):
        raise UsageError("some classes do not occur in the earlier rows")
    return None


def _study_of_past(study: Study, past: np.ndarray) -> Study:
    """Return the study of the rows of the past, in three folds at most."""
    earlier = split_study(
        study.sample.take(past),
        study.target[past],
        study.task,
        replace(study.validation, folds=min(study.folds, 3), repeats=1),
        study.without_cases,
    )
    return replace(
        earlier,
        rule=study.rule,
        params=study.params,
        n_settings=study.n_settings,
        grid=study.grid,
    )


def _scores_of_all(
    study: Study,
    earlier: Study,
    held_out: HeldOutDecisions,
    past: np.ndarray,
    x: np.ndarray,
) -> HeldOutScores:
    """Return the scores of all rows by the machines of the past.

    Rows of the past have the scores of the machines that held them out.

    Parameters
    ----------
    study, earlier : Study
        Of all rows, and of the past.
    held_out : HeldOutDecisions
        Of the past.
    past : int ndarray
        Numbers of its rows.
    x : ndarray of shape (n_rows, n_encoded)
        All rows, encoded.
    """
    decisions = held_out.model.decisions(x)
    past_decisions = held_out.decisions.astype(float)
    repeats = np.repeat(decisions[None], len(past_decisions), axis=0)
    repeats[:, past] = past_decisions
    fold = np.full(len(x), AFTER)
    fold[past] = held_out.fold[0]
    groups = study.groups
    if groups is not None:
        groups = groups.astype(str).astype(object)
        groups[past] = np.asarray(earlier.groups, str)
    return HeldOutScores.of_decisions(
        repeats,
        earlier.task,
        study.target,
        groups,
        held_out.class_chances,
        fold,
        alike=number_ties(x),
        trained=decisions[:, earlier.task.watched_columns],
    )

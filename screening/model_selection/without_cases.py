"""Training without cases, or with too few to be folded.

A one-class machine learns what past rows are like. Nothing is tuned, since no figure
that a search maximizes exists without cases, and none that needs no case chose better
than the recipe's own parameters did (`benchmarks/label_free.py`). The threshold is a
rank among held-out rows that are not known cases, and known cases, which no machine
learns from, judge it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from screening.data.cohort import Cohort
from screening.data.labels import affirmative_class, joined_labels, means_case
from screening.errors import UsageError
from screening.metrics.groups import units_of
from screening.model_selection.task import Task
from screening.recipes.recipe import Recipe
from screening.schemas.figures import NO_CASE_SEEN, MaxFlagRate, Rule, Threshold
from screening.schemas.validation import WithoutCases
from screening.settings import Search, Validation

UNKNOWN_STATE = "unknown"
"""Label of every row of a table without a label column."""
CASE = "case"
"""Name of the class to find where neither a label nor the contract names it."""
# Share of unknown cases from which they would be what is usual.
_MAX_CONTAMINATION = 0.5
# Cases from which those of a fold can be held out from others.
_MIN_CASES = 2
# Cases from which there are as many folds as cases, if more were asked for.
_ENOUGH_CASES = 5


def with_states_of_labels(cohort: Cohort) -> Cohort:
    """Return a cohort in which every row has a label, and a case of words is named.

    Without a label column every row is of unknown state. Of two labels, one that means
    "yes" is the positive one, however few rows have it.
    """
    if cohort.label is None:
        unknown = np.full(cohort.n_rows, UNKNOWN_STATE, dtype=object)
        return replace(cohort, label=unknown)
    classes = cohort.classes
    if cohort.contract.positive or len(classes) != 2:
        return cohort
    case = affirmative_class(classes)
    if case is None:
        return cohort
    contract = cohort.contract.with_roles(positive=case)
    return replace(cohort, contract=contract)


def task_without_cases(cohort: Cohort) -> Task | None:
    """Return the task of a cohort without a case; None if its labels name some.

    Parameters
    ----------
    cohort : Cohort
        As `with_states_of_labels` returns it.

    Raises
    ------
    UsageError
        If every row is a case.
    """
    classes = cohort.classes
    if len(classes) > 1:
        return None
    named = cohort.contract.positive
    if named:
        is_case = any(joined_labels(name, classes) for name in named)
    else:
        is_case = means_case(classes[0]) is True
    if is_case:
        raise UsageError(
            f"column {cohort.contract.label}: every row is a case, but a one-class "
            "machine learns from rows without the condition",
            parameters=["label"],
        )
    name = "+".join(named) or CASE
    return Task(
        kind="binary",
        label=cohort.contract.label or "label",
        positive=[name],
        classes=["negative", name],
        watched=[name],
    )


def check_without_cases(
    cohort: Cohort,
    target: np.ndarray,
    recipe: Recipe,
    rule: Rule,
    validation: Validation,
    search: Search,
) -> WithoutCases | None:
    """Check how a recipe is trained without cases; None if cases can be folded.

    Parameters
    ----------
    cohort : Cohort
    target : int ndarray of shape (n_rows,)
        1 for cases.
    recipe : Recipe
    rule : Rule
    validation : Validation
    search : Search

    Raises
    ------
    UsageError
        If there are fewer than two cases, and the rule needs some; if a contamination
        is out of its range or cannot be taken into account; or if settings are to
        compete where no case can judge them.
    """
    contamination = validation.contamination or 0.0
    if not 0 <= contamination < _MAX_CONTAMINATION:
        raise UsageError(
            f"`contamination` must be at least 0 and below {_MAX_CONTAMINATION:g}, "
            f"got {contamination:g}",
            parameters=["contamination"],
        )
    is_for_flags = isinstance(rule, MaxFlagRate | Threshold)
    is_applicable = recipe.machine == "one_class" and is_for_flags
    n_cases = units_of(target == 1, cohort.group)
    if not is_applicable or fills_folds(cohort, n_cases, validation.folds):
        if recipe.machine == "one_class":
            refuse_rule(n_cases, _MIN_CASES, rule)
        if validation.contamination is not None:
            raise UsageError(
                "`contamination` needs a one-class recipe, trained without cases and "
                "by `max_flag_rate`; otherwise leave it out, because labels are "
                "taken as true",
                parameters=["contamination", "max_flag_rate"],
            )
        return None
    if (search.search or 1) > 1:
        raise UsageError(
            "`search` compares settings by cases, and there are too few for every "
            "fold; leave it out to use the recipe's own parameters",
            parameters=["search"],
        )
    refuse_few_rows(int((target == 0).sum()), rule)
    has_labels = cohort.contract.label is not None
    return WithoutCases(
        state="without the condition" if has_labels else "unknown",
        contamination=contamination,
    )


def notes_without_cases(
    without_cases: WithoutCases, rule: Rule, n_cases: int
) -> list[str]:
    """Return what a reader should know about a training without cases.

    Parameters
    ----------
    without_cases : WithoutCases
    rule : Rule
    n_cases : int
        Known cases, which only judge.
    """
    notes = []
    if without_cases.state == "unknown":
        notes.append(
            "no label column: the state of every row is unknown, and the flag "
            "rate is promised for rows like these"
        )
    if n_cases:
        notes.append(
            f"{n_cases} known case(s) are too few for every fold: they do not "
            "choose a machine or a threshold, but only evaluate them"
        )
    else:
        notes.append(f"sensitivity, PPV and chance are {NO_CASE_SEEN}")
    share = without_cases.contamination
    if share and isinstance(rule, MaxFlagRate):
        least = max(rule.value - share, 0.0) / (1 - share)
        notes.append(
            f"the promise is for all rows together, {100 * share:.3g} % of them unknown"
            f" cases. If every unknown case is flagged, so are {100 * least:.3g} % of"
            " rows without the condition; if unknown cases are flagged as often as"
            f" other rows, {100 * rule.value:.3g} %"
        )
    return notes


def fills_folds(cohort: Cohort, n_cases: int, folds: int) -> bool:
    """Return True if there are cases enough for one in every fold, or at least 5.

    `n_cases` counts cases, or groups with cases. Voxels of few patients are folded by
    slabs, and each may contain cases.
    """
    n_needed = 1 if cohort.coordinates is not None else n_cases_needed(folds)
    return n_cases >= n_needed


def n_cases_needed(folds: int) -> int:
    """Return how many cases, or groups with cases, a training with cases needs."""
    return min(folds, _ENOUGH_CASES)


def refuse_rule(n_cases: int, n_needed: int, rule: Rule) -> None:
    """Raise UsageError for a rule that needs more cases to be chosen by."""
    if n_cases < n_needed and not isinstance(rule, MaxFlagRate | Threshold):
        raise UsageError(
            f"`{rule.name}` needs at least {n_needed} cases, and there are {n_cases}; "
            "use `max_flag_rate`, such as 0.05, which only promises the share of "
            "flags",
            parameters=[rule.name, "max_flag_rate"],
        )


def refuse_few_rows(n_rows: int, rule: Rule) -> None:
    """Raise UsageError if no rank among so few rows keeps the flag rate."""
    if isinstance(rule, MaxFlagRate) and rule.value * (n_rows + 1) < 1:
        needed = int(np.ceil(1 / rule.value - 1))
        raise UsageError(
            f"{n_rows} rows are too few to promise a flag rate of {rule.value:g}, "
            f"because no row would be flagged; give at least {needed}, or a larger "
            "`max_flag_rate`",
            parameters=["max_flag_rate"],
        )

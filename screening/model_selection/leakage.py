"""Columns that a ranking rests on, or that may be known only after the outcome.

No figure separates a leak from a good marker. So figures say what the ranking rests on,
and structure and names alone raise a question, which a person answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pandas as pd

from screening.data.cohort import Cohort
from screening.data.column_names import in_words, may_be_later
from screening.errors import ScreenError
from screening.io.date_formats import date_numbers_of, times_of_numbers
from screening.metrics.ranking import area_either_way, area_of_levels, area_under_roc
from screening.model_selection.blocks import correlated_blocks
from screening.model_selection.fold_fits import EncodedRows
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions, encode, plan_method
from screening.model_selection.plans import Plan, run_plan, side_by_side
from screening.model_selection.same_measurement import (
    correlated_pairs,
    same_measurements,
)
from screening.model_selection.task import Task
from screening.recipes.building import load_recipe
from screening.schemas.model import ColumnBlock, Leak, Reliance
from screening.settings import Resources

# Blocks that are left out one after another.
MAX_BLOCKS = 5
# Rows of each class that the quick member is fitted to at most.
MAX_ROWS_A_CLASS = 5000
QUICK_MEMBER = "logistic"
# A number of fewer distinct values repeats by itself.
MIN_VALUES_OF_TIME = 20
# Share of rows with equal values, without the most frequent one, from which two times
# are one (at most .06 on valid tables), and from which one is a copy of the other.
MIN_EQUAL_SHARE = 0.3
COPY_SHARE = 0.999
# Rows on which two columns are compared at least.
MIN_COMPARED_ROWS = 20
# A column is filled in one class alone if at least this share of it has a value, and of
# the others at most this part of that share.
MIN_FILLED_SHARE = 0.2
MAX_FILLED_RATIO = 0.05
MIN_FILLED_ROWS = 10
# Missing values carry the ranking if the shares of rows without a value differ by so
# much between the classes: the AUROC of being missing is .7 or more.
MIN_MISSING_DIFFERENCE = 0.4
# A discharge that is present or absent is a finding, such as one of a wound; a patient
# who went home is "discharged".
FINDINGS = frozenset({"discharge", "ausfluss", "sekret"})
# A number that counts days or seconds is a later time if it lies more than a day after
# the row's own time in at least this share of the rows.
MIN_LATER_SHARE = 0.5


def _signs_by_column(
    cohort: Cohort, watched: np.ndarray, equal_pairs: Sequence[tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Return code and words of what is odd about a column, by its name.

    `watched`, (n_classes, n_rows): the rows of each class, as a mask.
    """
    signs: dict[str, tuple[str, str]] = {}
    for name in cohort.contract.features:
        values = cohort.values[name]
        if may_be_later(name) and not _is_finding(name, values):
            signs[name] = ("named_after", "by its name")
        elif any(_is_filled_in_one_class(values, positive) for positive in watched):
            signs[name] = ("filled_in_one_class", "filled almost only in one class")
        elif any(_is_missing_in_one_class(values, positive) for positive in watched):
            signs[name] = (
                "missing_in_one_class",
                "missing far more often in one class, which by itself ranks the "
                "patients",
            )
        elif _is_later_than_row(cohort, name):
            signs[name] = ("later_time", "a time that is later than the row's own")
    for first, second in equal_pairs:
        for name, other in ((first, second), (second, first)):
            words = f"equal to {other} in most rows"
            signs.setdefault(name, ("equal_values", words))
    return signs


def leaks(
    cohort: Cohort, task: Task, by_class: bool = True
) -> tuple[list[Leak], list[list[str]]]:
    """Return a question for each block of columns that may come after the outcome.

    Also the groups of columns that are the same measurement, where an answer about the
    first is an answer about all.

    By its name, by values that two times share, by being filled in one class alone, by
    being missing so much more often in one that it ranks, or by times that are later
    than the rows' own. Strength is not a sign. The result has no values of patients.

    Parameters
    ----------
    cohort : Cohort
    task : Task
    by_class : bool
        There are enough cases to show that a column is filled in one class alone.
    """
    watched = task.is_watched(cohort.labels).T
    compared = watched if by_class else watched[:0]
    equal_pairs = _equal_times(cohort)
    signs = _signs_by_column(cohort, compared, equal_pairs)
    are_equal = [
        pair
        for pair in equal_pairs
        if all(signs[name][0] == "equal_values" for name in pair)
    ]
    same = []
    if by_class:
        same = _same_measurements(cohort, signs, are_equal, watched)
    questions = []
    for block in correlated_blocks(cohort, [*same, *are_equal]):
        asked = {name: signs[name] for name in block if name in signs}
        if asked:
            alone = _best_alone(cohort, next(iter(asked)), watched)
            questions.append(_question(asked, alone))
    return questions, same


def _question(signs: Mapping[str, tuple[str, str]], alone: float | None) -> Leak:
    """Return the question about columns of one block, by their code and words.

    `alone` is the AUROC of the first.
    """
    first = next(iter(signs))
    code, words = signs[first]
    if len(signs) > 1 and all(sign == "equal_values" for sign, _ in signs.values()):
        words = "equal in most rows"
    return Leak(
        code=code,
        column=first,
        columns=list(signs),
        figure=alone,
        said=f"{', '.join(signs)}: {words}; it may be known only after the outcome",
    )


def _is_finding(column: str, values: np.ndarray) -> bool:
    """Return True for a finding, there or not, with the name of something later."""
    return in_words(column) in FINDINGS and pd.Series(values).nunique() <= 2


def _same_measurements(
    cohort: Cohort,
    signs: Mapping[str, tuple[str, str]],
    equal_pairs: Sequence[tuple[str, str]],
    watched: np.ndarray,
) -> list[list[str]]:
    """Return groups of columns that are one measurement, the strongest first.

    A column that the contract states, or that is odd by itself, is in no group.
    """
    free = [
        name
        for name, feature in cohort.contract.features.items()
        if feature.type == "number"
        and feature.available is None
        and (name not in signs or signs[name][0] == "equal_values")
    ]
    pairs = {
        *correlated_pairs(cohort, free),
        *(pair for pair in equal_pairs if set(pair) <= set(free)),
    }
    paired = set(chain.from_iterable(pairs))
    alone = {
        name: _best_alone(cohort, name, watched) or 0.5
        for name in free
        if name in paired
    }
    strongest_first = sorted(alone, key=lambda name: -alone[name])
    return same_measurements(cohort, strongest_first, pairs, watched)


def _is_filled_in_one_class(values: np.ndarray, positive: np.ndarray) -> bool:
    """Return True if nearly all values are of cases, or of the others."""
    is_filled = ~pd.isna(values)
    one_class = positive.all() or not positive.any()
    if is_filled.sum() < MIN_FILLED_ROWS or one_class:
        return False
    of_cases = is_filled[positive].mean()
    of_others = is_filled[~positive].mean()
    low, high = sorted([of_cases, of_others])
    return bool(high >= MIN_FILLED_SHARE and low <= MAX_FILLED_RATIO * high)


def _is_missing_in_one_class(values: np.ndarray, positive: np.ndarray) -> bool:
    """Return True if being missing alone separates many cases from the others.

    As where patients died, or went home, before a value was taken.
    """
    is_missing = pd.isna(values)
    one_class = positive.all() or not positive.any()
    if is_missing.sum() < MIN_FILLED_ROWS or one_class:
        return False
    difference = is_missing[positive].mean() - is_missing[~positive].mean()
    return bool(abs(difference) >= MIN_MISSING_DIFFERENCE)


def _is_later_than_row(cohort: Cohort, name: str) -> bool:
    """Return True if a column counts days or seconds of times after the row's own."""
    feature = cohort.contract.features[name]
    numbers = cohort.values[name]
    if cohort.time is None or feature.type != "number":
        return False
    if pd.isna(numbers).all():
        return False
    counted = date_numbers_of(np.nanmax(numbers))
    if counted is None:
        return False
    elapsed = times_of_numbers(numbers, counted) - cohort.time
    is_known = ~np.isnat(elapsed)
    is_later = elapsed[is_known] > np.timedelta64(1, "D")
    return bool(is_known.any() and is_later.mean() >= MIN_LATER_SHARE)


def _equal_times(cohort: Cohort) -> list[tuple[str, str]]:
    """Return pairs of numbers of many values that are equal in most rows.

    Without a relapse, its time is that of the death. The most frequent value is left
    out; a column that is a copy of another does not count.
    """
    columns = {}
    for name, feature in cohort.contract.features.items():
        if feature.type != "number":
            continue
        values, counts = np.unique(cohort.values[name], return_counts=True)
        if len(values) >= MIN_VALUES_OF_TIME:
            most_frequent = values[counts.argmax()]
            column = cohort.values[name]
            columns[name] = np.where(column == most_frequent, np.nan, column)
    pairs = []
    for first, second in combinations(columns, 2):
        times = columns[first]
        other_times = columns[second]
        is_compared = ~np.isnan(times) & ~np.isnan(other_times)
        if is_compared.sum() < MIN_COMPARED_ROWS:
            continue
        is_equal = times[is_compared] == other_times[is_compared]
        if MIN_EQUAL_SHARE <= is_equal.mean() < COPY_SHARE:
            pairs.append((first, second))
    return pairs


def _best_alone(cohort: Cohort, name: str, watched: np.ndarray) -> float | None:
    """Return the best AUROC of one column over the watched classes.

    None where no case has been seen. `watched` are masks, (n_watched, n_rows).
    """
    if not watched.any():
        return None
    return max(_column_alone(cohort, name, mask) for mask in watched)


def _column_alone(cohort: Cohort, name: str, positive: np.ndarray) -> float:
    """Return the AUROC of one column, in the better direction.

    That of its values, among which missing ones rank in the middle, or that of being
    missing. `positive` is a mask of shape (n_rows,).
    """
    values = cohort.values[name]
    if cohort.contract.features[name].type == "category":
        levels, _ = pd.factorize(values, use_na_sentinel=False)
        return area_of_levels(levels, positive)
    missing = pd.isna(values)
    median = 0.0 if missing.all() else np.nanmedian(values)
    filled = np.where(missing, median, values)
    return max(
        area_either_way(filled, positive),
        area_either_way(missing.astype(float), positive),
    )


def reliance_of(study: Study, jobs: int = 1) -> Reliance | None:
    """Return what the ranking of the first watched class rests on.

    A quick member is fitted on the study's folds with all columns, and without the one,
    two, ... five blocks that rank best alone. None where it cannot be fitted, as
    without cases.
    """
    return run_plan(_plan_reliance(study), Resources(jobs=jobs))


def _plan_reliance(study: Study) -> Plan[Reliance | None]:
    """Plan the fits of the quick member side by side."""
    label = study.task.watched[0]
    positive = study.watched[:, 0]
    quick = _quick_study(study, positive)
    if quick is None:
        return None
    sample = quick.sample
    is_case = quick.target == 1
    blocks = []
    for columns in correlated_blocks(sample, study.same_measurements):
        alone = {name: _column_alone(sample, name, is_case) for name in columns}
        strongest_first = sorted(columns, key=lambda name: -alone[name])
        strongest = strongest_first[0]
        blocks.append(
            ColumnBlock(
                columns=strongest_first, alone=alone[strongest], strongest=strongest
            )
        )
    blocks.sort(key=lambda block: -block.alone)
    blocks = blocks[:MAX_BLOCKS]
    encoded = encode(quick, load_recipe(QUICK_MEMBER))
    left_out: list[list[str]] = [[]]
    for block in blocks:
        left_out.append([*left_out[-1], *block.columns])
    plans = [_plan_without(quick, encoded, columns) for columns in left_out]
    outcomes = yield from side_by_side(plans)
    areas = [_area(outcome, is_case) for outcome in outcomes]
    whole = areas.pop(0)
    if whole is None:
        return None
    return Reliance(
        recipe=QUICK_MEMBER,
        label=label,
        whole=whole,
        blocks=blocks,
        # Without a fit there is no ranking.
        without=[0.5 if area is None else area for area in areas],
    )


def _quick_study(study: Study, positive: np.ndarray) -> Study | None:
    """Return the study of one class against the rest, on some of its rows.

    None if there are too few of either class to be held out by folds.
    """
    rng = np.random.default_rng(study.validation.seed)
    chosen = []
    for mask in (positive, ~positive):
        rows = np.flatnonzero(mask)
        if len(rows) > MAX_ROWS_A_CLASS:
            rows = rng.choice(rows, MAX_ROWS_A_CLASS, replace=False)
        chosen.append(rows)
    n_folds = len(np.unique(study.fold[0]))
    if min(map(len, chosen)) < n_folds:
        return None
    rows = np.sort(np.concatenate(chosen))
    task = Task(
        kind="binary",
        label="label",
        positive=["1"],
        classes=["negative", "1"],
        watched=["1"],
    )
    groups = None if study.groups is None else study.groups[rows]
    return replace(
        study,
        sample=study.sample.take(rows),
        task=task,
        target=positive[rows].astype(np.int64),
        fold=study.fold[:1, rows],
        groups=groups,
        params={},
        n_settings=1,
    )


def _plan_without(
    study: Study, encoded: EncodedRows, columns: Sequence[str]
) -> Plan[HeldOutDecisions | None]:
    """Plan the quick member without some columns; None if no column is left."""
    assert encoded.encoder is not None
    is_kept = ~np.isin(encoded.encoder.columns, columns)
    if not is_kept.any():
        return None
    rows = encoded.of_rows(np.ascontiguousarray(encoded.x[:, is_kept]))
    return (yield from plan_method(study, rows.recipe, rows))


def _area(
    outcome: HeldOutDecisions | ScreenError | None, positive: np.ndarray
) -> float | None:
    """Return the AUROC of held-out decisions, None if there are none."""
    if not isinstance(outcome, HeldOutDecisions):
        return None
    decisions = outcome.decisions.mean(axis=0, dtype=float)
    return float(area_under_roc(decisions[:, 0], positive))

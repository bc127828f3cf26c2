"""Folds that never split a patient, and sub-samples.

Rows are dealt by a keyed hash of their ids, never by position: the same rows in another
order are dealt the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from screening.contract.contract import Contract
from screening.data.cohort import Cohort
from screening.data.dependence import Sign
from screening.errors import UsageError
from screening.estimators.ensembles import occurrence
from screening.metrics.groups import units_of
from screening.model_selection.task import Task
from screening.schemas.figures import DEFAULT_RULE, GridName, Rule
from screening.schemas.model import Leak
from screening.schemas.validation import WithoutCases
from screening.settings import Validation

# Slabs of voxels per fold, if there are fewer patients than folds.
_SLABS_PER_FOLD = 4
# Groups beyond which scikit-learn's splitter, which weighs each one, is too slow.
_MAX_SPLITTER_GROUPS = 5_000
# Rows up to which folds are dealt several times by default, and how often.
_MAX_CHEAP_ROWS = 5_000
_CHEAP_REPEATS = 3


@dataclass(frozen=True)
class Study:
    """Rows, question, rule and folds by which one or several methods are judged.

    Parameters
    ----------
    cohort : Cohort
        All rows, without columns that are known only after the outcome.
    sample : Cohort
        Rows that are trained and validated on.
    contract : Contract
        Of the model: the features that it needs every night, and no others.
    task : Task
    target : int ndarray of shape (n_rows,)
        Class code of each row of the sample.
    fold : int ndarray of shape (n_repeats, n_rows)
        Fold in which each row of the sample is held out.
    groups : ndarray of shape (n_rows,), optional
        Groups that no fold splits; None if rows are independent.
    validation : Validation
        As the caller asked for it; there may be fewer folds.
    rule : Rule
        With the prevalence, if the sample no longer has it.
    params : dict
        Parameters that the caller fixed.
    n_settings : int, optional
        Number of settings of the machine that compete; None for the recipe's number, or
        with several classes for as many as a budget of work allows.
    grid : {"recipe", "paper"}
        Grid of the settings: the recipe's, or the one that its paper prints, if any.
    leaks : sequence of Leak
    same_measurements : sequence of sequence of str
        Columns that may be known only after the outcome.
    signs : sequence of Sign
        Signs that several rows are of one patient.
    notes : sequence of str
    without_cases : WithoutCases, optional
        How it is trained if there are no cases, or too few for every fold.
    """

    cohort: Cohort
    sample: Cohort
    contract: Contract
    task: Task
    target: np.ndarray
    fold: np.ndarray
    groups: np.ndarray | None
    validation: Validation
    rule: Rule = DEFAULT_RULE
    params: Mapping[str, object] = field(default_factory=dict)
    n_settings: int | None = None
    grid: GridName = "recipe"
    leaks: Sequence[Leak] = ()
    same_measurements: Sequence[Sequence[str]] = ()
    signs: Sequence[Sign] = ()
    notes: Sequence[str] = ()
    without_cases: WithoutCases | None = None

    @property
    def folds(self) -> int:
        """Number of folds of a repeat."""
        return int(self.fold.max()) + 1

    @property
    def repeats_are_needed(self) -> bool:
        """True if the caller asked for repeats, or a promise without cases needs them.

        The share of flags is that of the mean of machines; one of them decides on a
        held-out row. Otherwise machines with a factor are fitted in one repeat: each of
        them costs its own time at every scoring, while plain ones average to a single
        machine.
        """
        return self.validation.repeats is not None or self.without_cases is not None

    @property
    def watched(self) -> np.ndarray:
        """True classes of the rows of the sample, bool of (n_rows, n_watched)."""
        return self.target[:, None] == np.asarray(self.task.watched_codes)


def _hash_key(seed: int) -> str:
    return f"{seed:016d}"[-16:]


def hash_names(names: np.ndarray, seed: int) -> np.ndarray:
    """Hash each name, uint64 of shape (n,); each seed gives an order."""
    texts = np.asarray(names, object)
    return pd.util.hash_array(texts, hash_key=_hash_key(seed))


def hash_order(cohort: Cohort, seed: int) -> np.ndarray:
    """Return the row numbers by the hash of their ids, or of their values without."""
    return np.argsort(_hash_rows(cohort, seed), kind="stable")


def _hash_rows(cohort: Cohort, seed: int) -> np.ndarray:
    """Hash each row's id, or its values if it has no id; (n_rows,)."""
    if cohort.contract.id is not None:
        return hash_names(cohort.id, seed)
    table = cohort.features[sorted(cohort.features.columns)]
    if cohort.label is not None:
        table = table.assign(**{"": cohort.label})
    hashes = pd.util.hash_pandas_object(table, index=False, hash_key=_hash_key(seed))
    return _make_distinct(hashes.to_numpy(), seed)


def _make_distinct(hashes: np.ndarray, seed: int) -> np.ndarray:
    """Make the hashes of copies of a row distinct; the first keeps its hash.

    With equal hashes copies would be dealt in turn, one per fold: a held-out row would
    meet every other copy of its label in training, but only some copies of the other
    label, and all figures would be too good.
    """
    copy = occurrence(hashes)
    numbers = np.arange(1, copy.max(initial=0) + 1).astype(str)
    hash_of_copy = np.append(np.uint64(0), hash_names(numbers, seed))
    return hashes ^ hash_of_copy[copy]


def choose_groups(
    cohort: Cohort, target: np.ndarray, folds: int
) -> tuple[np.ndarray | None, int, tuple[str, ...]]:
    """Choose the groups that no fold splits, the number of folds, and notes.

    Voxels of fewer patients than folds are cut into slabs along their longest axis,
    because neighboring voxels are similar. Otherwise there are at most as many folds as
    groups, or rows, of the rarer class.

    Parameters
    ----------
    cohort : Cohort
    target : int ndarray of shape (n_rows,)
    folds : int

    Raises
    ------
    UsageError
        If all rows of a class are in one group, or copies of one row.
    """
    first, unit_of_row = _units(cohort, cohort.group, len(target))
    n_groups = 0 if cohort.group is None else len(first)
    if n_groups < folds and cohort.coordinates is not None:
        groups, note = _slabs(cohort.coordinates, max(n_groups, 1), folds)
        return groups, folds, (note,)
    n_units = np.count_nonzero(_rows_of_units(unit_of_row, target), axis=0)
    most = min(folds, n_groups or folds)
    if len(n_units) == 2:
        most = min(most, int(n_units.min()))
    if most < 2:
        raise UsageError(
            f"a class occurs in one {_holder_of_class(cohort)} only, so nothing is "
            "left for validation; at least two are needed, and more for useful "
            "figures"
        )
    if most == folds:
        return cohort.group, folds, ()
    few = f"{most} row(s) of the rarer class"
    if most == n_groups:
        few = f"{most} group(s)"
    elif cohort.group is not None:
        few = f"{most} group(s) of the rarer class"
    note = f"{few} for {folds} folds: validated with {most} folds instead"
    return cohort.group, most, (note,)


def _holder_of_class(cohort: Cohort) -> str:
    """Return what contains all rows of a class."""
    if cohort.group is None:
        return "row"
    if cohort.contract.group is None:
        return "group"
    return f"group of column {cohort.contract.group}"


def _slabs(
    coordinates: np.ndarray, n_patients: int, folds: int
) -> tuple[np.ndarray, str]:
    """Return the slab of each voxel, and a note."""
    axis = int(np.argmax(np.ptp(coordinates, axis=0)))
    along = coordinates[:, axis]
    shares = np.linspace(0, 1, _SLABS_PER_FOLD * folds + 1)[1:-1]
    cuts = np.unique(np.quantile(along, shares))
    number = np.searchsorted(cuts, along, side="right").astype(str)
    note = (
        f"{n_patients} patient(s) for {folds} folds: validated on slabs of "
        f"neighbouring voxels along {'xyz'[axis]}; the figures are for other places "
        "in the same patients, not for new patients"
    )
    return np.char.add("slab ", number), note


def _units(
    cohort: Cohort, groups: np.ndarray | None, n_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what no fold splits: groups, or copies of a row, or single rows.

    Returns
    -------
    first : int ndarray of shape (n_units,)
        Number of the first row of each unit.
    unit_of_row : int ndarray of shape (n_rows,)
    """
    units = cohort.copy_of if groups is None else groups
    if units is None:
        units = np.arange(n_rows)
    _, first, unit_of_row = np.unique(units, return_index=True, return_inverse=True)
    return first, unit_of_row


def _rows_of_units(unit_of_row: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """Count the rows of each unit in each class that occurs, (n_units, n_classes)."""
    _, codes = np.unique(strata, return_inverse=True)
    counts = np.zeros((unit_of_row.max() + 1, codes.max() + 1), int)
    np.add.at(counts, (unit_of_row, codes), 1)
    return counts


def split_folds(
    cohort: Cohort, target: np.ndarray, groups: np.ndarray | None, folds: int, seed: int
) -> np.ndarray:
    """Split rows into folds: the fold in which each is held out, (n_rows,).

    Folds are stratified and keep groups whole. Without groups, all copies of a row are
    in one fold.

    Parameters
    ----------
    cohort : Cohort
    target : int ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), optional
    folds : int
    seed : int
        Of the hashes of rows, or of their groups, by which they are dealt.

    Raises
    ------
    UsageError
        If a fold would leave a class out of its training rows.
    """
    if groups is None:
        order = _hash_rows(cohort, seed)
    else:
        order = hash_names(groups, seed)
    first, unit_of_row = _units(cohort, groups, len(target))
    _, strata = np.unique(target, return_inverse=True)
    # A class with fewer units than folds cannot be spread evenly: it is dealt with the
    # commonest class.
    n_units = np.count_nonzero(_rows_of_units(unit_of_row, strata), axis=0)
    commonest = int(np.bincount(strata).argmax())
    strata = np.where(n_units[strata] >= folds, strata, commonest)
    if len(first) > _MAX_SPLITTER_GROUPS or len(first) == len(target):
        # Units with the same numbers of rows of each class are dealt in turn.
        counts = _rows_of_units(unit_of_row, strata)
        fold_of_unit = np.empty(len(first), int)
        dealt = np.lexsort([order[first], *counts.T])
        fold_of_unit[dealt] = np.arange(len(first)) % folds
        fold = fold_of_unit[unit_of_row]
    else:
        rank_of_unit = np.argsort(np.argsort(order[first], kind="stable"))
        fold = np.empty(len(target), int)
        splits = StratifiedGroupKFold(folds).split(
            strata, strata, rank_of_unit[unit_of_row]
        )
        for number, (_, held_out) in enumerate(splits):
            fold[held_out] = number
    _refuse_without_class(target, fold)
    return fold


def _refuse_without_class(target: np.ndarray, fold: np.ndarray) -> None:
    """Raise UsageError if a fold contains all rows of one of two classes."""
    n_classes = len(np.unique(target))
    n_folds = int(fold.max()) + 1
    for number in range(n_folds):
        trained_on = np.unique(target[fold != number])
        if n_classes == 2 and len(trained_on) < 2:
            raise UsageError(
                f"with {n_folds} folds, one contains all rows of a class; use fewer "
                "`folds`",
                parameters=["folds"],
            )


def _folds_of_caller(cohort: Cohort, target: np.ndarray) -> np.ndarray:
    """Return the folds of a cohort itself, (1, n_rows).

    Raise UsageError if one splits a group, or leaves a class out of training.
    """
    fold = cohort.fold
    assert fold is not None
    if cohort.group is not None:
        n_folds_of_group = pd.Series(fold).groupby(cohort.group).nunique()
        if (n_folds_of_group > 1).any():
            raise UsageError(
                "the folds of `cv` split rows of one group; use a splitter that keeps "
                "groups whole, such as StratifiedGroupKFold",
                parameters=["cv"],
            )
    _refuse_without_class(target, fold)
    return fold[None]


def split_study(
    sample: Cohort,
    target: np.ndarray,
    task: Task,
    validation: Validation,
    without_cases: WithoutCases | None = None,
) -> Study:
    """Deal a cohort's rows to folds, differently in each repeat.

    By default there are three repeats if the table is small: they reduce the effect of
    one deal on the specificity that is printed, and more gain nothing. Without cases
    enough for every fold rows are dealt whatever their labels. Parameters as for
    ``Study``.
    """
    dealt_by = target if without_cases is None else np.zeros_like(target)
    fold_notes: tuple[str, ...] = ()
    if sample.fold is not None:
        groups = sample.group
        fold = _folds_of_caller(sample, dealt_by)
    else:
        groups, n_folds, fold_notes = choose_groups(sample, dealt_by, validation.folds)
        n_repeats = validation.repeats
        if n_repeats is None:
            n_repeats = _CHEAP_REPEATS if sample.n_rows <= _MAX_CHEAP_ROWS else 1
        dealt = [
            split_folds(sample, dealt_by, groups, n_folds, validation.seed + repeat)
            for repeat in range(n_repeats)
        ]
        fold = np.array(dealt)
    study = Study(
        cohort=sample,
        sample=sample,
        contract=sample.contract,
        task=task,
        target=target,
        fold=fold,
        groups=groups,
        validation=validation,
        without_cases=without_cases,
    )
    watched, task_notes = drop_rare_classes(task, target, groups, study.folds)
    return replace(study, task=watched, notes=[*task_notes, *fold_notes])


def drop_rare_classes(
    task: Task, target: np.ndarray, groups: np.ndarray | None, folds: int
) -> tuple[Task, list[str]]:
    """Drop classes that are too rare to watch from the task; also return a note.

    For a class with fewer groups than folds only a threshold that flags everything
    could be promised. Classes that the caller named stay watched.

    Parameters
    ----------
    task : Task
    target : int ndarray of shape (n_rows,)
    groups : ndarray of shape (n_rows,), optional
    folds : int
    """
    if task.kind == "binary" or task.positive:
        return task, []
    unit = "rows" if groups is None else "groups"
    kept = []
    dropped = []
    for name, code in zip(task.watched, task.watched_codes, strict=True):
        n_units = units_of(target == code, groups)
        if n_units >= folds:
            kept.append(name)
        else:
            dropped.append(f"{name} ({n_units} {unit})")
    if not kept or not dropped:
        return task, []
    note = (
        f"not watched, because too few for {folds} folds: {', '.join(dropped)} (to "
        "watch them, name them with `positive`)"
    )
    return task.replace(watched=kept), [note]


def sub_sample(
    target: np.ndarray,
    groups: np.ndarray | None,
    max_rows: int,
    rare_share: float,
    seed: int,
) -> np.ndarray:
    """Return row numbers of a sub-sample that keeps every group's share of each class.

    Parameters
    ----------
    target : int ndarray of shape (n_rows,)
        Of rows in hash order, so that a draw by number is a draw by hash.
    groups : ndarray of shape (n_rows,), optional
    max_rows : int
    rare_share : float
        Positives of a binary target are kept until they have this share of the sample,
        so that a rare class survives; the prevalence is then no longer the cohort's. 0
        keeps the proportions.
    seed : int

    Returns
    -------
    int ndarray, ascending
    """
    rng = np.random.default_rng(seed)
    sizes = np.bincount(target) * (max_rows / len(target))
    if rare_share and len(sizes) == 2:
        n_positive = int((target == 1).sum())
        kept_positive = min(n_positive, max(sizes[1], rare_share * max_rows))
        sizes = np.array([max_rows - kept_positive, kept_positive])
    kept = []
    for value, size in enumerate(sizes):
        rows = rng.permutation(np.flatnonzero(target == value))
        if groups is not None:
            # Every n-th row of the rows sorted by group keeps each group's share.
            rows = rows[np.argsort(groups[rows], kind="stable")]
        count = min(len(rows), max(round(size), 1))
        spaced = np.linspace(0, len(rows), count, endpoint=False)
        kept.append(rows[spaced.astype(int)])
    return np.sort(np.concatenate(kept))

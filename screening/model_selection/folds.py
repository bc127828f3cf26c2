"""How rows are held out: a study's folds, which never split a patient, and sub-samples with the rare class.

Everything goes by a keyed hash of the row's id, never by its place: the same rows in another order are dealt
alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from screening.data.cohort import Cohort, labels_of
from screening.data.dependence import Sign
from screening.errors import UsageError
from screening.estimators.ensembles import occurrence
from screening.metrics.tally import units_of
from screening.model_selection.task import Task, watchable
from screening.schemas.figures import DEFAULT_RULE, Rule
from screening.schemas.model import Leak

SLABS_PER_FOLD = 4
MANY_GROUPS = 5_000
# Up to so many rows the folds are dealt three times where nobody says how often.
CHEAP_ROWS, CHEAP_REPEATS = 5_000, 3


@dataclass(frozen=True)
class Study:
    """What is asked of a method, or of several: the rows, the question, the rule and the folds."""

    # cohort, sample: all rows, without what is known only after the outcome; and those that are trained and
    # validated on.
    cohort: Cohort
    sample: Cohort
    task: Task
    fold: (
        np.ndarray
    )  # int, (n_repeats, n_rows): the fold that each row of the sample is held out in
    groups: np.ndarray | None  # what no fold splits; None where rows are independent
    rule: Rule = DEFAULT_RULE  # with the prevalence that the sample no longer shows
    # Whether the caller asked for the repeats. Otherwise machines with a factor are dealt once: each of
    # them costs its own time at every scoring, while plain ones average to a single machine.
    repeats_asked: bool = True
    params: Mapping[str, object] = field(default_factory=dict)  # what the caller fixed
    search: int | None = None  # settings that compete; each recipe's own number if None
    seed: int = 0  # of folds and candidates
    leaks: Sequence[Leak] = ()  # columns that may be the answer itself
    signs: Sequence[Sign] = ()  # that several rows may be of one patient
    notes: Sequence[str] = ()  # what has to be said of all this

    @property
    def folds(self) -> int:
        """How many folds there are in a repeat."""
        return int(self.fold.max()) + 1

    @cached_property
    def target(self) -> np.ndarray:
        """The class of each row of the sample."""
        return self.task.target(labels_of(self.sample))


def keys(names: np.ndarray, seed: int) -> np.ndarray:
    """A hash of each name, shape (n,), of type uint64; another seed gives another order."""
    return pd.util.hash_array(np.asarray(names, object), hash_key=f"{seed:016d}"[-16:])


def in_hash_order(cohort: Cohort, seed: int) -> Cohort:
    """The rows sorted by the hash of their ids: by that of their values where the table names no id."""
    return cohort.take(np.argsort(row_keys(cohort, seed), kind="stable"))


def row_keys(cohort: Cohort, seed: int) -> np.ndarray:
    """A hash of each row's id, or of its values where the id is but the row's number; shape (n_rows,)."""
    if cohort.contract.id is not None:
        return keys(cohort.id, seed)
    table = cohort.features[sorted(cohort.features.columns)]
    if cohort.label is not None:
        table = table.assign(**{"": cohort.label})
    hashes = pd.util.hash_pandas_object(
        table, index=False, hash_key=f"{seed:016d}"[-16:]
    ).to_numpy()
    return _told_apart(hashes, seed)


def _told_apart(hashes: np.ndarray, seed: int) -> np.ndarray:
    """Keys of which the copies of a row have one each, shape (n,); the first keeps its hash.

    With one key for all, copies would be dealt in turn, one a fold: a row held out would meet every other
    of its own label in training and a share of those of the other label, and all figures would be too good.
    """
    copy = occurrence(hashes)
    numbers = np.arange(1, copy.max(initial=0) + 1).astype(str)
    return hashes ^ np.append(np.uint64(0), keys(numbers, seed))[copy]


def units(
    cohort: Cohort, target: np.ndarray, folds: int
) -> tuple[np.ndarray | None, int, tuple[str, ...]]:
    """What no fold splits, how many folds that leaves, and what had to be invented or given up.

    Voxels of fewer patients than folds are cut into slabs along their longest axis, because neighbouring
    voxels are alike. Otherwise there are as many folds as the groups (or the rows) of the rarer class allow.
    UsageError where one group, or one row, holds all of a class.
    """
    n_groups = 0 if cohort.group is None else len(np.unique(cohort.group))
    if n_groups < folds and cohort.coordinates is not None:
        groups, note = _slabs(cohort.coordinates, max(n_groups, 1), folds)
        return groups, folds, (note,)
    holders = [units_of(target == value, cohort.group) for value in np.unique(target)]
    most = min(folds, n_groups or folds, *(holders if len(holders) == 2 else [folds]))
    if most < 2:
        column = cohort.contract.group
        what = (
            f"group of column {column} holds" if cohort.group is not None else "row is"
        )
        raise UsageError(
            f"one {what} all there is of a class: nothing is left to validate on; "
            "at least two are needed, and more for figures worth having"
        )
    if most == folds:
        return cohort.group, folds, ()
    few = (
        f"{n_groups} group(s)"
        if most == n_groups
        else (
            f"{min(holders)} "
            + ("row(s)" if cohort.group is None else "group(s)")
            + " of the rarer class"
        )
    )
    return (
        cohort.group,
        most,
        (f"{few} for {folds} folds: validated by {most} folds instead",),
    )


def _slabs(
    coordinates: np.ndarray, n_patients: int, folds: int
) -> tuple[np.ndarray, str]:
    axis = int(np.argmax(np.ptp(coordinates, axis=0)))
    along = coordinates[:, axis]
    cuts = np.unique(
        np.quantile(along, np.linspace(0, 1, SLABS_PER_FOLD * folds + 1)[1:-1])
    )
    note = (
        f"{n_patients} patient(s) for {folds} folds: validated on slabs of neighbouring voxels "
        f"along {'xyz'[axis]}; this tells how it does elsewhere in the same patients, not on new ones"
    )
    return np.char.add(
        "slab ", np.searchsorted(cuts, along, side="right").astype(str)
    ), note


def split_folds(
    target: np.ndarray, groups: np.ndarray | None, order: np.ndarray, folds: int
) -> np.ndarray:
    """Number of the fold that each row is held out in, (n_rows,): stratified, whole groups together.

    `order` are keys of the rows, or of their groups, by which they are dealt. UsageError where a fold would
    leave a class out of its training rows.
    """
    present, strata = np.unique(target, return_inverse=True)
    holders = np.array([units_of(target == value, groups) for value in present])
    # A class with fewer rows than folds cannot be spread evenly: it is dealt with the commonest class.
    strata = np.where(
        holders[strata] >= folds, strata, int(np.bincount(strata).argmax())
    )
    if groups is None:
        fold = np.empty(len(target), int)
        fold[np.lexsort([order, strata])] = np.arange(len(target)) % folds
    else:
        fold = _deal_groups(strata, groups, order, folds)
    for number in range(folds):
        if len(present) == 2 and len(np.unique(target[fold != number])) < 2:
            raise UsageError(
                f"with {folds} folds one of them holds all there is of a class; use fewer --folds"
            )
    return fold


def _deal_groups(
    strata: np.ndarray, groups: np.ndarray, order: np.ndarray, folds: int
) -> np.ndarray:
    _, first, code = np.unique(groups, return_index=True, return_inverse=True)
    if (
        len(first) > MANY_GROUPS
    ):  # groups of the same rows of each class in turn: a splitter weighs each one
        held = np.zeros((len(first), strata.max() + 1), int)
        np.add.at(held, (code, strata), 1)
        of_group = np.empty(len(first), int)
        of_group[np.lexsort([order[first], *held.T])] = np.arange(len(first)) % folds
        return of_group[code]
    by_hash = np.argsort(np.argsort(order[first], kind="stable"), kind="stable")[code]
    fold = np.empty(len(strata), int)
    splitter = StratifiedGroupKFold(folds)
    for number, (_, test) in enumerate(splitter.split(strata, strata, by_hash)):
        fold[test] = number
    return fold


def plan_study(
    sample: Cohort,
    task: Task,
    folds: int,
    repeats: int | None,
    seed: int,
    *,
    search: int | None = None,
) -> Study:
    """Deal a cohort's rows to folds, each repeat anew: as often as asked, or three times where that is cheap.

    Three take away some of what one deal of the folds does to the printed specificity; more gain nothing.
    """
    target = task.target(labels_of(sample))
    groups, number, few = units(sample, target, folds)
    task, unwatched = watchable(task, target, groups, folds)
    times = repeats or (CHEAP_REPEATS if sample.n_rows <= CHEAP_ROWS else 1)
    return Study(
        cohort=sample,
        sample=sample,
        task=task,
        fold=np.array(
            [
                split_cohort(sample, target, groups, number, seed + repeat)
                for repeat in range(times)
            ]
        ),
        groups=groups,
        repeats_asked=repeats is not None,
        search=search,
        seed=seed,
        notes=[*unwatched, *few],
    )


def split_cohort(
    cohort: Cohort, target: np.ndarray, groups: np.ndarray | None, folds: int, seed: int
) -> np.ndarray:
    """`split_folds` by the ids of rows, or of their groups."""
    order = row_keys(cohort, seed) if groups is None else keys(groups, seed)
    return split_folds(target, groups, order, folds)


def sub_sample(
    target: np.ndarray,
    groups: np.ndarray | None,
    max_rows: int,
    rare_share: float,
    seed: int,
) -> np.ndarray:
    """Row numbers of a sub-sample, sorted, that keeps every group's share of every class.

    Rows are in hash order, so that a draw by number is a draw by hash. A binary target's positives are kept
    until they make `rare_share` of the sample, so that a rare class survives; 0 keeps the proportions. The
    prevalence is then no longer the cohort's.
    """
    rng = np.random.default_rng(seed)
    wanted = np.bincount(target) * (max_rows / len(target))
    if rare_share and len(wanted) == 2:
        positives = min(int((target == 1).sum()), max(wanted[1], rare_share * max_rows))
        wanted = np.array([max_rows - positives, positives])
    kept = []
    for value, count in enumerate(wanted):
        rows = rng.permutation(np.flatnonzero(target == value))
        if groups is not None:
            # Taking every step-th row of the rows sorted by group keeps each group's share.
            rows = rows[np.argsort(groups[rows], kind="stable")]
        count = min(len(rows), max(round(count), 1))
        kept.append(
            rows[np.linspace(0, len(rows), count, endpoint=False).astype(int)]
            if count
            else rows[:0]
        )
    return np.sort(np.concatenate(kept))

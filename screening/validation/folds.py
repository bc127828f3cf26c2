"""How rows are dealt out: folds that never split a patient, sub-samples that keep the rare class."""

from __future__ import annotations

import numpy as np

from screening.cohort.cohort import Cohort
from screening.errors import UsageError

SLABS_PER_FOLD = 4

Split = tuple[np.ndarray, np.ndarray]


def units(cohort: Cohort, folds: int) -> tuple[np.ndarray | None, str | None]:
    """What must stay on one side of a split, shape (n_rows,), and a note where it had to be invented.

    The contract's group where there are enough of them, None where rows are independent. Voxels of fewer
    patients than folds are cut into slabs along their longest axis, because neighbouring voxels are alike.

    Raises
    ------
    UsageError
        Fewer groups than folds and no coordinates to cut by.
    """
    n_groups = 0 if cohort.group is None else len(np.unique(cohort.group))
    if n_groups >= folds:
        return cohort.group, None
    if cohort.coordinates is not None:
        axis = int(np.argmax(np.ptp(cohort.coordinates, axis=0)))
        along = cohort.coordinates[:, axis]
        cuts = np.unique(np.quantile(along, np.linspace(0, 1, SLABS_PER_FOLD * folds + 1)[1:-1]))
        note = (
            f"{max(n_groups, 1)} patient(s) for {folds} folds: validated on slabs of neighbouring voxels "
            f"along {'xyz'[axis]}; this tells how it does elsewhere in the same patients, not on new ones"
        )
        return np.char.add("slab ", np.searchsorted(cuts, along, side="right").astype(str)), note
    if cohort.group is not None:
        raise UsageError(
            f"{n_groups} group(s) in column {cohort.contract.group} for {folds} folds; "
            f"use --folds {max(n_groups, 2)} or fewer, or name coordinates in the contract"
        )
    return None, None


def split(target: np.ndarray, groups: np.ndarray | None, folds: int, seed: int) -> list[Split]:
    """Stratified folds as (train, test) row numbers, whole groups on one side.

    Raises
    ------
    UsageError
        A binary target whose positives (or the groups that hold them) are fewer than the folds.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    present, strata = np.unique(target, return_inverse=True)
    holders = [
        len(np.flatnonzero(strata == i)) if groups is None else len(np.unique(groups[strata == i]))
        for i in range(len(present))
    ]
    if len(present) == 2 and min(holders) < folds:
        what = "rows of the rarer class" if groups is None else "groups that hold the rarer class"
        raise UsageError(
            f"{min(holders)} {what} for {folds} folds; use --folds {max(min(holders), 2)} or fewer"
        )
    # A class with fewer rows than folds cannot be spread evenly: it is dealt with the commonest class.
    commonest = int(np.bincount(strata).argmax())
    strata = np.where(np.asarray(holders)[strata] >= folds, strata, commonest)
    if groups is None:
        return list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(strata, strata))
    return list(StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(strata, strata, groups))


def sub_sample(
    target: np.ndarray, groups: np.ndarray | None, max_rows: int, rare_share: float, seed: int
) -> np.ndarray:
    """Row numbers of a sub-sample, sorted, that keeps every group's share of every class.

    Parameters
    ----------
    target : ndarray of int, shape (n_rows,)
    groups : ndarray, shape (n_rows,), or None
    max_rows : int, > 0
    rare_share : float, 0 to 1
        A binary target's positives are kept until they make this share of the sample, so that a rare
        class survives; 0 keeps the proportions. The prevalence is then no longer the cohort's.
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
        kept.append(rows[np.linspace(0, len(rows), count, endpoint=False).astype(int)] if count else rows[:0])
    return np.sort(np.concatenate(kept))

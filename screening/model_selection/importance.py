"""Importance of blocks of columns: the AUROC that is lost when one is shuffled.

Held-out rows are decided on by the model's own machines, each by one that had not seen
it, with the values of a block shuffled among the rows of its fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from screening.estimators.ensembles import (
    BlendedEnsemble,
    FoldEnsemble,
    oriented,
)
from screening.metrics.paired import area_difference
from screening.model_selection.blocks import correlated_blocks
from screening.model_selection.folds import Study
from screening.model_selection.held_out import HeldOutDecisions
from screening.schemas.model import BlockImportance, Importance

# Rows that are decided on at most; with fewer rows blocks are shuffled several times.
MAX_ROWS = 2_000
N_SHUFFLES = 2
# Numbers in rows that are decided on at a time.
MAX_VALUES = 4_000_000
# Blocks that are kept, those of the largest loss.
MAX_BLOCKS = 20


def importance_of(study: Study, method: HeldOutDecisions) -> list[Importance]:
    """Return what each block of columns adds to the ranking of each watched class.

    Parameters
    ----------
    study : Study
        With the columns of the model.
    method : HeldOutDecisions
        With its machines.

    Returns
    -------
    list of Importance
        One a watched class that has two cases at least; empty where there is only one
        block of columns.

    Notes
    -----
    Breiman 2001; blocks of correlated columns are shuffled together, because alone each
    would be replaced by the others.
    """
    blocks = correlated_blocks(study.sample, study.same_measurements)
    if len(blocks) < 2:
        return []
    is_case = study.watched
    rows = _chosen_rows(np.any(is_case, axis=1), study.validation.seed)
    x = method.encoded.x[rows]
    fold = method.fold[0][rows]
    groups = None if study.groups is None else study.groups[rows]
    columns = np.array(method.encoder.columns)
    in_block = [np.isin(columns, block) for block in blocks]
    n_shuffles = N_SHUFFLES if len(rows) < MAX_ROWS else 1
    whole = np.empty((len(rows), study.task.n_outputs))
    shuffled = np.empty((len(blocks), n_shuffles, *whole.shape))
    rng = np.random.default_rng(study.validation.seed)
    for number in np.unique(fold):
        in_fold = fold == number
        decide = partial(_decisions, method, fold=number)
        whole[in_fold] = decide(x[in_fold])
        shuffled[:, :, in_fold] = _decisions_shuffled(
            decide, x[in_fold], in_block, n_shuffles, rng
        )
    result = []
    for name, output, cases in zip(
        study.task.watched, study.task.watched_columns, is_case[rows].T, strict=True
    ):
        if min(cases.sum(), (~cases).sum()) < 2:
            continue
        own = whole[:, output]
        lost = []
        for names, decided in zip(blocks, shuffled, strict=True):
            loss = area_difference(own, decided[:, :, output], cases, groups)
            lost.append(BlockImportance(columns=names, lost=loss))
        lost.sort(key=lambda block: -(block.lost.value or 0.0))
        result.append(
            Importance(label=name, blocks=lost[:MAX_BLOCKS], n_blocks=len(lost))
        )
    return result


def _chosen_rows(is_case: np.ndarray, seed: int) -> np.ndarray:
    """Return the numbers of at most `MAX_ROWS` rows, half of them cases if possible."""
    if len(is_case) <= MAX_ROWS:
        return np.arange(len(is_case))
    rng = np.random.default_rng(seed)
    cases = np.flatnonzero(is_case)
    others = np.flatnonzero(~is_case)
    half = min(len(cases), MAX_ROWS // 2)
    n_cases = max(half, MAX_ROWS - len(others))
    chosen = [
        rng.choice(cases, n_cases, replace=False),
        rng.choice(others, MAX_ROWS - n_cases, replace=False),
    ]
    return np.sort(np.concatenate(chosen))


def _decisions_shuffled(
    decide: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    in_block: Sequence[np.ndarray],
    n_shuffles: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return decisions on rows with the columns of one block shuffled.

    Parameters
    ----------
    decide : callable
        Returns the decisions on encoded rows.
    x : ndarray of shape (n_rows, n_encoded)
    in_block : sequence of bool ndarray of shape (n_encoded,)
    n_shuffles : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_blocks, n_shuffles, n_rows, n_outputs)
    """
    decided = []
    # One call for many blocks: most machines take longer to begin than to decide.
    n_at_once = max(1, MAX_VALUES // (n_shuffles * x.size))
    for first in range(0, len(in_block), n_at_once):
        copies = []
        for is_changed in in_block[first : first + n_at_once]:
            copies += _shuffled_copies(x, is_changed, n_shuffles, rng)
        decided.append(decide(np.concatenate(copies)))
    decisions = np.concatenate(decided)
    return decisions.reshape(len(in_block), n_shuffles, len(x), -1)


def _shuffled_copies(
    x: np.ndarray, is_changed: np.ndarray, n_shuffles: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return copies of rows, each with some columns shuffled together."""
    copies = []
    for _ in range(n_shuffles):
        copy = x.copy()
        copy[:, is_changed] = rng.permutation(x[:, is_changed])
        copies.append(copy)
    return copies


def _decisions(method: HeldOutDecisions, x: np.ndarray, fold: int) -> np.ndarray:
    """Return decisions on encoded rows by the machine of a fold of the first repeat.

    Shape (n_rows, n_outputs).
    """
    if isinstance(method.ensemble, BlendedEnsemble):
        members = [_decisions(member, x, fold) for member in method.members]
        return method.ensemble.pooling.pooled(np.stack(members, axis=-2))
    ensemble = method.ensemble
    assert isinstance(ensemble, FoldEnsemble)
    seen = x if ensemble.bundles is None else ensemble.bundles.of(x)
    machine = ensemble.machines[fold]
    return oriented(machine.decide(seen), machine, ensemble.kind, ensemble.n_outputs)

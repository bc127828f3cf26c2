"""What in a table looks like the answer itself: named by `train` and on the page, for a person to judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from screening.cohort.cohort import Cohort
from screening.documents.model import Leak
from screening.sources.columns import absent, coded
from screening.statistics.ranking import auroc
from screening.validation.task import Task

# A single value that ranks this well is rarely a value known beforehand.
SUSPICIOUS = 0.99
# A category with more levels than this, most rows having one of their own, is a name.
MANY_LEVELS, OWN_LEVEL = 20, 0.5
# A column whose being missing alone ranks at least this well says how patients were cared for.
TELLING = 0.65


def before_the_outcome(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """The cohort without the columns that its contract says exist only after the outcome, and their names."""
    features = cohort.contract.features
    late = [name for name, feature in features.items() if feature.available == "after"]
    if not late:
        return cohort, []
    kept = {name: feature for name, feature in features.items() if name not in late}
    contract = cohort.contract.model_copy(update={"features": kept})
    return replace(cohort, contract=contract, values=cohort.values.only(kept)), late


def leaks(cohort: Cohort, task: Task) -> list[Leak]:
    """Columns to look at before the model is believed.

    Returns
    -------
    list of Leak
        No patient's value is in them.
    """
    label = np.asarray(cohort.label, dtype=object)
    watched = task.is_watched(label)
    found = []
    for name, feature in cohort.contract.features.items():
        values = cohort.values[name]
        gone = absent(values)
        if feature.type == "category":
            levels = len(set(values[~gone].tolist()))
            if levels > MANY_LEVELS and levels > OWN_LEVEL * (~gone).sum():
                words = f"{name}: {levels} categories, nearly one a row, like an id"
                found.append(Leak(code="nearly_unique", column=name, figure=float(levels), said=words))
                continue
            best = max((_of_levels(values, positive) for positive in watched.T), default=0.5)
        else:
            filled = np.where(gone, np.nanmedian(values) if (~gone).any() else 0.0, values)
            best = max((_either_way(filled, positive) for positive in watched.T), default=0.5)
        if best > SUSPICIOUS:
            words = f"{name}: alone it ranks with AUROC {best:.3f}; is it known before the outcome?"
            found.append(Leak(code="ranks_alone", column=name, figure=best, said=words))
    for name in cohort.contract.features:
        gone = absent(cohort.values[name]).astype(float)
        best = max((_either_way(gone, positive) for positive in watched.T), default=0.5)
        if best >= TELLING:
            words = (
                f"{name}: being missing ranks with AUROC {best:.2f}; that may tell of care, not of illness"
            )
            found.append(Leak(code="missing_tells", column=name, figure=best, said=words))
    return found


def _of_levels(values: np.ndarray, positive: np.ndarray) -> float:
    """How well a category ranks alone: each half of the rows by the shares of cases in the other half.

    Its own rows would make any category of many levels rank well.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Texts, None where missing, which counts as a level.
    positive : bool ndarray of shape (n_rows,)
    """
    if positive.all() or not positive.any():
        return 0.5
    level = coded(values)[1]
    half = np.random.default_rng(0).permutation(len(values)) % 2
    ranked = np.empty(len(values))
    for mine in (0, 1):
        theirs = half != mine
        cases, rows = (
            np.bincount(level[theirs], weights, int(level.max()) + 1) for weights in (positive[theirs], None)
        )
        ranked[~theirs] = ((cases + positive.mean()) / (rows + 1))[level[~theirs]]
    return auroc(ranked, positive)


def _either_way(values: np.ndarray, positive: np.ndarray) -> float:
    if positive.all() or not positive.any() or np.ptp(values) == 0:
        return 0.5
    area = auroc(values, positive)
    return max(area, 1 - area)

"""The kind of a score made elsewhere: a probability, per cent, or points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from screening.contract.contract import SCORE_RANGES, Contract, Feature, ScoreKind
from screening.data.cohort import Cohort
from screening.errors import CohortError
from screening.spelling import first_of

MAX_SHOWN_ROWS = 5
# Parts of names of scores that are per cent if they go beyond 1.
PERCENT_NAMES = ("percent", "pct", "prob", "chance", "likelihood")
MEANINGS = {
    "probability": "a probability (0 to 1)",
    "percent": "per cent (0 to 100)",
    "points": "points (0 or more)",
}


def with_score_kind(cohort: Cohort) -> Cohort:
    """Return a cohort with the kind of its score, if its contract states none.

    Raises
    ------
    CohortError
        A value is outside the kind that the contract states.
    """
    contract = cohort.contract
    if contract.score is None or contract.score not in contract.features:
        return cohort
    scores = np.asarray(cohort.values[contract.score], dtype=float)
    if contract.kind is not None:
        _refuse_values_outside(cohort, contract, scores)
        return cohort
    kind = infer_kind(scores, contract.score, contract.features[contract.score])
    if kind is None:
        return cohort
    note = (
        f"inferred kind of '{contract.score}': {MEANINGS[kind]}; a night's value "
        "outside is not scored; if the score is something else, set kind or plausible"
    )
    return replace(cohort, score_kind=kind, notes=[*cohort.notes, note])


def infer_kind(scores: np.ndarray, name: str, feature: Feature) -> ScoreKind | None:
    """Return the kind of a score by its values, and of per cent by its name or unit.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        NaN where a row has none.
    name : str
    feature : Feature

    Returns
    -------
    {"probability", "percent", "points"} or None
        None if values and name do not show it.
    """
    present = scores[~np.isnan(scores)]
    if not present.size or present.min() < 0:
        return None
    has_fractions = bool(np.any(present != np.rint(present)))
    if present.max() <= 1:
        return "probability" if has_fractions else None
    is_called_percent = any(part in name.lower() for part in PERCENT_NAMES)
    if present.max() <= 100 and (feature.unit == "%" or is_called_percent):
        return "percent"
    return None if has_fractions else "points"


def _refuse_values_outside(
    cohort: Cohort, contract: Contract, scores: np.ndarray
) -> None:
    assert contract.kind is not None, "only if the contract states it"
    low, high = SCORE_RANGES[contract.kind]
    is_outside = (scores < low) | (scores > high)
    if not is_outside.any():
        return
    numbers = cohort.rows[is_outside].tolist()
    raise CohortError(
        f"column '{contract.score}', rows "
        f"{first_of(numbers, MAX_SHOWN_ROWS, len(numbers))}: not "
        f"{MEANINGS[contract.kind]}, which `kind` of the contract requires; correct "
        "the cells, or `kind`"
    )

"""Differences between a night's scores and those of training, in words."""

from __future__ import annotations

from screening.schemas import reasons
from screening.schemas.base import Reason
from screening.schemas.run import ScoreCounts

ALPHA = 0.001
# A smaller difference is none to a reader, however certain many rows make it.
MIN_DISTANCE = 0.05
MIN_SCORES = 20


def is_alarming(counts: ScoreCounts) -> bool:
    """Return True if scores differ significantly, by `MIN_DISTANCE` at least."""
    if counts.p is None or counts.distance is None:
        return False
    has_scores = sum(counts.counted) >= MIN_SCORES
    return has_scores and counts.p <= ALPHA and counts.distance >= MIN_DISTANCE


def describe_drift(counts: ScoreCounts | None, own_nights: int = 0) -> str:
    """Describe in a sentence how a night's scores compare with others.

    Parameters
    ----------
    counts : ScoreCounts or None
        Empty text for None, a night that was not counted.
    own_nights : int
        Number of nights of the series that the counts are compared with; 0 where they
        are compared with training.
    """
    if counts is None:
        return ""
    unit = "patients" if counts.unit == "group" else "rows"
    n_scores = sum(counts.counted)
    if counts.p is None or n_scores < MIN_SCORES:
        return (
            f"Too few {unit} were scored ({n_scores}) to compare tonight's scores with "
            "those of training."
        )
    p = "below 0.001" if counts.p < 0.001 else f"{counts.p:.3f}"
    gap = f"(largest difference of shares {counts.distance:.2f}, p {p})"
    level = "higher" if counts.higher else "lower"
    if own_nights:
        return (
            f"Tonight's {unit} score {level} on the whole than those of this series' "
            f"last {own_nights} nights {gap}."
        )
    training = f"those of training did when they were held out {gap}"
    if is_alarming(counts):
        return (
            f"Tonight's {unit} score {level} on the whole than {training}: the "
            "patients, the laboratory or the coding may have changed, and the "
            "validation estimates may not hold."
        )
    return (
        f"Tonight's {unit} score as {training}: no sign that the patients or the "
        "measurements have changed."
    )


def drift_reason(counts: ScoreCounts | None, own_nights: int = 0) -> Reason | None:
    """Return the reason that a night's scores differ; None if they do not.

    Parameters are those of `describe_drift`.
    """
    if counts is None or not is_alarming(counts):
        return None
    if own_nights:
        remedy = (
            "Ask the source what has changed since: the patients, the laboratory or "
            "the coding."
        )
    else:
        remedy = (
            "Compare the columns with training under Data, and ask the source what has "
            "changed; if the patients are different now, train again."
        )
    return reasons.SCORES_DIFFER(
        figure=counts.p,
        threshold=ALPHA,
        description=describe_drift(counts, own_nights),
        remedy=remedy,
    )

"""Drift over the last nights: their patients together, each once, against the rows of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from screening.documents import Reason, ScoreCounts
from screening.documents.history import DriftOver
from screening.statistics.shift import shift

RECENT_NIGHTS = 14
"""Nights whose patients are compared with the training cohort as one."""

ALARM = 0.005
SMALLEST = 0.05
FEWEST = 20


def drift_over(nights: Sequence[ScoreCounts | None]) -> DriftOver | None:
    """Test the scores of recent nights, under the model now in use, against those held out in training.

    A patient who stays for a week is one patient and not seven: the latest score counts. Nights from before
    hashes were kept, or of tables whose rows no column names, cannot be put together and are left out.

    Parameters
    ----------
    nights : sequence of ScoreCounts or None
        Of one model, oldest first.

    Returns
    -------
    DriftOver or None
        Its reason is None where there is no alarm. None where no night can be put with others.
    """
    kept = [night for night in nights if night is not None and night.who]
    if not kept:
        return None
    latest: dict[int, int] = {}
    for night in kept:
        latest.update(zip(night.who, night.cell, strict=True))
    known = kept[-1].known
    found = shift(known, np.bincount(list(latest.values()), minlength=len(known)))
    if found is None or len(latest) < FEWEST:
        return DriftOver(nights=len(kept), patients=len(latest), distance=None, p=None, reason=None)
    alarm = found.p <= ALARM and found.distance >= SMALLEST
    reason = _reason(len(kept), len(latest), found.distance, found.p, found.higher) if alarm else None
    return DriftOver(
        nights=len(kept), patients=len(latest), distance=found.distance, p=found.p, reason=reason
    )


def _reason(nights: int, patients: int, distance: float, p: float, higher: bool) -> Reason:
    return Reason(
        "drift_over_nights",
        f"The {patients} patients of the last {nights} night{'s' * (nights != 1)}, each counted once, score "
        f"{'higher' if higher else 'lower'} on the whole than those of training did when they were held out "
        f"(largest difference of shares {distance:.2f}): the patients or the measurements have changed.",
        figure=p,
        threshold=ALARM,
        remedy="Ask the source what has changed since; if the patients are other ones now, train again.",
    )

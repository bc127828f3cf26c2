"""How a night's scores lie among those of training: counts of cells, and what they say in words."""

from __future__ import annotations

from screening.documents.base import Reason
from screening.documents.run import ScoreCounts

ALARM = 0.001
# A difference that no reader would call one, however sure many rows make it.
SMALLEST = 0.05
FEWEST = 20


def words(counts: ScoreCounts | None) -> str:
    """What the scores say of the night, in plain words; empty for a night that was not counted."""
    if counts is None:
        return ""
    who, n = ("patients" if counts.unit == "group" else "rows"), sum(counts.counted)
    if counts.p is None or n < FEWEST:
        return f"Too few {who} were scored ({n}) to tell whether tonight's scores are like those of training."
    how = f"(largest difference of shares {counts.distance:.2f}, p {_p(counts.p)})"
    if not alarms(counts):
        return (
            f"Tonight's {who} score as those of training did when they were held out {how}: no sign that the "
            "patients or the measurements have changed."
        )
    where = "higher" if counts.higher else "lower"
    return (
        f"Tonight's {who} score {where} on the whole than those of training did when they were held out "
        f"{how}: the patients, the laboratory or the coding may have changed, and the promised figures may "
        "not hold."
    )


def alarms(counts: ScoreCounts) -> bool:
    """Whether scores differ from those of training by more than chance, and by more than a trifle."""
    if counts.p is None or counts.distance is None or sum(counts.counted) < FEWEST:
        return False
    return counts.p <= ALARM and counts.distance >= SMALLEST


def reason(counts: ScoreCounts | None, own_nights: int = 0) -> Reason | None:
    """Why the night deserves attention; None where its scores are like those of training.

    `own_nights`: of so many nights of the series are the counts that tonight's stand beside, not of training.
    """
    if counts is None or not alarms(counts):
        return None
    if own_nights:
        who, where = "patients" if counts.unit == "group" else "rows", "higher" if counts.higher else "lower"
        said = (
            f"Tonight's {who} score {where} on the whole than those of this series' last {own_nights} nights "
            f"(largest difference of shares {counts.distance:.2f}, p {_p(counts.p or 0.0)})."
        )
        remedy = "Ask the source what has changed since: the patients, the laboratory or the coding."
        return Reason("scores_differ", said, None, counts.p, ALARM, remedy)
    remedy = (
        "Compare the columns with training under Data, and ask the source what has changed; if the "
        "patients are other ones now, train again."
    )
    return Reason("scores_differ", words(counts), None, counts.p, ALARM, remedy)


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"

"""Compare a night with the last export of its series: new, changed and ended cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from screening.errors import UsageError
from screening.ledger.nights import series_by
from screening.schemas.history import Question
from screening.schemas.run import RunDocument
from screening.scoring.exporting import FlaggedRows, subjects_of
from screening.scoring.rows import Rows
from screening.spelling import shown_series

RULED_OUT = "ruled out by review"
CORRECTED = "the table was corrected"
NO_ROW = "no row in the table"
NO_LONGER = "no longer flagged"
MERGED = "the number was merged into another one"
LEFT_OUT = "left out: a value is out of bounds"


def is_run(folder: Path) -> bool:
    """Return True if a run directory lies in a folder."""
    return (folder / "run.json").is_file()


def series_of_run(run: RunDocument) -> str:
    """Return the series of a run, which without a ledger is the contract's."""
    if run.ledger is not None:
        return run.ledger.series
    name = run.model.contract["cohort"]["series"]
    return shown_series(series_by(name, Question.of(run.model)))


def recognises_patients(run: RunDocument) -> bool:
    """Return True if an id is the same patient's on another night."""
    return Question.of(run.model).recognisable


def refuse_unrecognisable(run: RunDocument) -> None:
    """Raise UsageError if rows of another night cannot be the same patient's."""
    if not recognises_patients(run):
        raise UsageError(
            "`since`: the contract names no column of ids, so patients are not "
            "recognised on other nights; leave it out",
            parameters=["since"],
        )


def refuse_later(since: Path, dates: Iterable[str], run: RunDocument) -> None:
    """Raise UsageError if an export is of a later night than a run."""
    last = max(dates, default=run.date)
    if last > run.date:
        raise UsageError(
            f"`since` {since}: this export is from {last}, after the night of this "
            f"run, {run.date}",
            parameters=["since"],
        )


def endings(flagged: FlaggedRows, last_flagged: Mapping[str, str]) -> dict[str, str]:
    """Return why patients of the last export are not flagged tonight, by patient.

    `last_flagged`: the night on which the export has each of them flagged. On tonight's
    date it was made from another table of this night.
    """
    merges = flagged.merges
    numbers = {subject: merges.numbers(subject) for subject in last_flagged}
    every = dict.fromkeys(chain.from_iterable(numbers.values()))
    no_row = set(Rows(flagged.directory / "scores.parquet").without_row([*every]))
    flagged_now = set(map(merges.patient, subjects_of(flagged.rows)))
    reasons = {}
    for subject, night in last_flagged.items():
        reason = NO_LONGER
        if night == flagged.run.date:
            reason = CORRECTED
        elif len(numbers[subject]) > 1 and merges.patient(subject) in flagged_now:
            reason = MERGED
        elif no_row.issuperset(numbers[subject]):
            reason = NO_ROW
        reasons[subject] = reason
    return reasons

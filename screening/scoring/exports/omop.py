"""Export the flagged persons as a cohort of the OMOP CDM.

These are rows of its tables `cohort` and `cohort_definition`, and in `cohort.json` the
night. With the last export of the series (`since`) the cohort goes on: a row lasts from
the first night of being flagged to the last, and `changes.csv` has the rows that are
new, changed or ended since.

The table `cohort` of the CDM has dates alone: they are days of the site's clock. The
instant of the night, with its offset, is in `cohort.json`.
"""

from __future__ import annotations

import csv
import datetime
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.compute as pc

from screening.errors import UsageError
from screening.report import format as fmt
from screening.schemas.run import RunDocument
from screening.scoring.exporting import (
    FlaggedRows,
    instant_of_night,
    read_flagged,
    subjects_of,
)
from screening.scoring.last_export import (
    LEFT_OUT,
    endings,
    is_run,
    refuse_later,
    refuse_unrecognisable,
    series_of_run,
)
from screening.spelling import first_of
from screening.store.model import OUT_OF_BOUNDS
from screening.store.publishing import publish

COHORT = ("cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date")
DEFINITION = (
    "cohort_definition_id",
    "cohort_definition_name",
    "cohort_definition_description",
    "definition_type_concept_id",
    "cohort_definition_syntax",
    "subject_concept_id",
    "cohort_initiation_date",
)
# A person_id of the CDM; a leading zero would be another text of the same number.
PERSON = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
CHANGES = (*COHORT, "change", "reason")
NO_CONCEPT = 0


class Membership(NamedTuple):
    """A row of the table `cohort`."""

    definition: int
    subject: int
    start: str
    end: str

    @property
    def key(self) -> tuple[int, int]:
        """The cohort and the person."""
        return self.definition, self.subject


def write(
    flagged: FlaggedRows,
    *,
    out: Path,
    definition: int = 1,
    since: Path | None = None,
) -> None:
    """Write the two tables as CSV in a directory; a person once for each watched class.

    A cohort cannot say that a value has to be checked, so rows with one out of bounds
    are left out, and their number is in the description.

    `definition`: `cohort_definition_id` of the first watched class; the others follow.
    `since`: the last export of the series, which is continued, or the run directory
    that it was made from.

    UsageError if an id is not a person_id, the model does not say that an id is a
    person, or `since` is not an earlier export of this series.
    """
    stated = flagged.run.model.stated
    if stated.group is None and not stated.id_is_person:
        raise UsageError(
            "OMOP's subject_id identifies a person, but the model does not state that "
            "an id does; set group to the column of the person in the contract, or "
            "id_is_person = true, and train again"
        )
    is_ordinary = pc.equal(flagged.rows[OUT_OF_BOUNDS], "")
    flagged_rows = flagged.rows.filter(is_ordinary)
    n_left_out = flagged.rows.num_rows - flagged_rows.num_rows
    subjects = subjects_of(flagged_rows)
    ranks = flagged_rows["rank"].to_pylist()
    wrong = [
        rank
        for rank, subject in zip(ranks, subjects, strict=True)
        if not PERSON.fullmatch(subject)
    ]
    if wrong:
        raise UsageError(
            f"the ids of the rows ranked {first_of(wrong, 5)} are not OMOP person_ids, "
            "which are whole numbers without leading zeros; score a table whose group "
            "or id is the person_id"
        )
    run = flagged.run
    numbers = _numbers(run, definition)
    # Without `since` the series begins tonight: no row to continue.
    earlier = Earlier("", run.date, run.date, [])
    if since is not None:
        refuse_unrecognisable(run)
        earlier = _read_earlier(since, definition)
        refuse_later(since, [earlier.night], run)
        _refuse_other_series(since, earlier, run, numbers)
    # A dict keeps the order and each person once.
    tonight: dict[tuple[int, int], None] = {}
    classes = flagged_rows["class"].to_pylist()
    for name, subject in zip(classes, subjects, strict=True):
        tonight[numbers[name], int(subject)] = None
    cohort, changes = _continued(flagged, earlier, tonight)
    definitions = _definitions(run, numbers, n_left_out, earlier.began)
    facts = {
        "run_id": run.run_id,
        "night": run.date,
        "taken_at": instant_of_night(run),
        "time_zone": run.times.time_zone,
        "began": earlier.began,
        "series": series_of_run(run),
        "model": run.model.id,
    }
    with publish(out, "omop") as folder:
        _write_csv(folder / "cohort_definition.csv", [DEFINITION, *definitions])
        _write_csv(folder / "cohort.csv", [COHORT, *cohort])
        if since is not None:
            _write_csv(folder / "changes.csv", [CHANGES, *changes])
        (folder / "cohort.json").write_text(json.dumps(facts, indent=1) + "\n")


def _numbers(run: RunDocument, definition: int) -> dict[str, int]:
    """Return the cohort_definition_id of each watched class."""
    return {
        name: number for number, name in enumerate(run.model.task.watched, definition)
    }


def _definitions(
    run: RunDocument, numbers: Mapping[str, int], n_left_out: int, began: str
) -> list[tuple[object, ...]]:
    """Return the rows of `cohort_definition`, one for each watched class."""
    description = f"screening run {run.run_id} of {run.date}, model {run.model.id}"
    if n_left_out:
        left_out = fmt.plural(n_left_out, "flagged row")
        description += f"; without {left_out} with values out of bounds"
    definitions: list[tuple[object, ...]] = []
    for (name, number), point in zip(
        numbers.items(), run.model.operating_points, strict=True
    ):
        row = (
            number,
            f"Flagged for {run.model.task.label}: {name}",
            description,
            NO_CONCEPT,
            f"recipe {run.model.recipe.name}, threshold {point.threshold!r}",
            NO_CONCEPT,
            began,
        )
        definitions.append(row)
    return definitions


class Earlier(NamedTuple):
    """The last export of a series.

    Parameters
    ----------
    series : str
    night : str
    began : str
        Night of the first export.
    rows : list of Membership
        Of its table `cohort`, in order.
    """

    series: str
    night: str
    began: str
    rows: list[Membership]


def _read_earlier(since: Path, definition: int) -> Earlier:
    """Read the last export, or make that of an earlier run."""
    folder = since
    with TemporaryDirectory() as made:
        if is_run(since):
            folder = Path(made, "omop")
            write(read_flagged(since), out=folder, definition=definition)
        try:
            facts = json.loads((folder / "cohort.json").read_text(encoding="utf-8"))
            with (folder / "cohort.csv").open(encoding="utf-8", newline="") as file:
                _, *lines = csv.reader(file)
            rows = [
                Membership(int(number), int(subject), start, end)
                for number, subject, start, end in lines
            ]
            return Earlier(facts["series"], facts["night"], facts["began"], rows)
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(
                f"`since` {since}: this is neither an OMOP export nor a run directory",
                parameters=["since"],
            ) from None


def _refuse_other_series(
    since: Path, earlier: Earlier, run: RunDocument, numbers: Mapping[str, int]
) -> None:
    """Raise UsageError for an export of another series, or with other definitions."""
    if earlier.series != series_of_run(run):
        raise UsageError(
            f"`since` {since}: this export belongs to series {earlier.series}, not to "
            f"{series_of_run(run)}",
            parameters=["since"],
        )
    if not {row.definition for row in earlier.rows} <= set(numbers.values()):
        raise UsageError(
            f"`since` {since}: this export has other cohort_definition_ids; give the "
            "same `definition`",
            parameters=["since", "definition"],
        )


def _continued(
    flagged: FlaggedRows, earlier: Earlier, tonight: Collection[tuple[int, int]]
) -> tuple[list[Membership], list[tuple[object, ...]]]:
    """Return the rows of `cohort` after tonight, and what changed.

    A person who was flagged on the last export and is flagged tonight has a row that
    ends tonight. If the last export is of another table of the same night, the rows of
    persons that this table does not flag are deleted, or end on the day before.
    """
    date = flagged.run.date
    is_corrected = earlier.night == date
    cohort = []
    stays = {}
    gone = []
    for row in earlier.rows:
        if row.end != earlier.night:
            cohort.append(row)
        elif row.key in tonight:
            stays[row.key] = row._replace(end=date)
        else:
            gone.append(row)
    new = [Membership(*key, date, date) for key in tonight if key not in stays]
    cohort += [*stays.values(), *new]
    changes: list[tuple[object, ...]] = []
    if not is_corrected:
        changes += _marked(stays.values(), "changed")
    reasons = endings(flagged, {str(row.subject): earlier.night for row in gone})
    # Flagged, but not in a cohort, which cannot state that a value must be checked.
    reasons |= dict.fromkeys(subjects_of(flagged.rows), LEFT_OUT)
    for row in gone:
        cohort += _ended(row, is_corrected)
        # As the last export had it, even where a correction shortened or removed it.
        changes.append((*row, "ended", reasons[str(row.subject)]))
    changes += _marked(new, "new")
    return sorted(cohort), changes


def _marked(rows: Iterable[Membership], change: str) -> list[tuple[object, ...]]:
    """Return rows with a change that needs no reason."""
    return [(*row, change, "") for row in rows]


def _ended(row: Membership, is_corrected: bool) -> list[Membership]:
    """Return what is left of the row of a person who is no longer flagged.

    `is_corrected`: its last night is tonight, by a table that was wrong.
    """
    if not is_corrected:
        return [row]
    if row.start == row.end:
        return []
    return [row._replace(end=_day_before(row.end))]


def _day_before(date: str) -> str:
    """Return the day before a date."""
    day = datetime.date.fromisoformat(date) - datetime.timedelta(days=1)
    return day.isoformat()


def _write_csv(path: Path, lines: Iterable[Iterable[object]]) -> None:
    """Write lines as CSV in UTF-8."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)

"""Export the flagged persons as a cohort of the OMOP CDM.

These are rows of its tables `cohort` and `cohort_definition`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow.compute as pc

from screening.errors import UsageError
from screening.report import format as fmt
from screening.scoring.rows import FlaggedRows, subjects_of
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
NO_CONCEPT = 0


def write(flagged: FlaggedRows, *, out: Path, definition: int = 1) -> None:
    """Write the two tables as CSV in a directory; a person once for each watched class.

    A cohort cannot say that a value has to be checked, so rows with one out of bounds
    are left out, and their number is in the description.

    `definition`: `cohort_definition_id` of the first watched class; the others follow.
    UsageError if an id is no person_id.
    """
    flagged_rows = flagged.rows
    if OUT_OF_BOUNDS in flagged_rows.column_names:
        is_ordinary = pc.equal(flagged_rows[OUT_OF_BOUNDS], "")
        flagged_rows = flagged_rows.filter(is_ordinary)
    n_left_out = flagged.rows.num_rows - flagged_rows.num_rows
    subjects = subjects_of(flagged_rows)
    ranks = flagged_rows["rank"].to_pylist()
    wrong = []
    for rank, subject in zip(ranks, subjects, strict=True):
        if not PERSON.fullmatch(subject):
            wrong.append(rank)
    if wrong:
        raise UsageError(
            f"ids of rank {first_of(wrong, 5)} are no whole numbers without zeros in front, as a "
            "person_id of OMOP is; score a table whose group or id is the person_id"
        )
    run = flagged.run
    description = f"screening run {run.run_id} of {run.date}, model {run.model.id}"
    if n_left_out:
        left_out = fmt.plural(n_left_out, "flagged row")
        description += f"; without {left_out} with values out of bounds"
    numbers = {}
    definitions = []
    watched = zip(run.model.task.watched, run.model.operating_points, strict=True)
    for number, (name, point) in enumerate(watched, start=definition):
        numbers[name] = number
        row = (
            number,
            f"Flagged for {run.model.task.label}: {name}",
            description,
            NO_CONCEPT,
            f"recipe {run.model.recipe.name}, threshold {point.threshold!r}",
            NO_CONCEPT,
            run.date,
        )
        definitions.append(row)
    # A dict keeps the order and each person once.
    persons: dict[tuple[object, ...], None] = {}
    classes = flagged_rows["class"].to_pylist()
    for name, subject in zip(classes, subjects, strict=True):
        persons[numbers[name], int(subject), run.date, run.date] = None
    with publish(out, "omop") as folder:
        _write_csv(folder / "cohort_definition.csv", [DEFINITION, *definitions])
        _write_csv(folder / "cohort.csv", [COHORT, *persons])


def _write_csv(path: Path, lines: Iterable[Iterable[object]]) -> None:
    """Write lines as CSV in UTF-8."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)

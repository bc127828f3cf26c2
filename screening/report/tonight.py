"""What the page of a night says first: its work, three sentences, scores as dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from screening.report import format as fmt
from screening.schemas.base import Estimate
from screening.schemas.model import ModelDocument
from screening.schemas.run import CheckValues, ExpectedCases, RunDocument
from screening.schemas.validation import OperatingPointFacts


class Tasks(NamedTuple):
    """Patients to look at because of a night, each counted once.

    Parameters
    ----------
    total : int
    parts : list of str
        How many of them are on the list, audited and to be checked.
    """

    total: int
    parts: list[str]


def tasks_of(run: RunDocument) -> Tasks:
    """Return how many patients of a night are to be looked at.

    Those flagged and without a verdict, then those of the random audit, then those with
    a value to check. Of more such values than the document lists, only the listed ones
    count.
    """
    audited = {row.id for row in run.sample}
    checked = _patients_to_check(run.check_values) if run.check_values else set()
    flagged = {case.group or case.id for case in run.cases}
    flagged.update(group.group for group in run.groups or () if group.flagged)
    n_checked = len(checked - flagged - audited)
    parts = [f"{fmt.count(run.awaited)} on the list"]
    if audited:
        parts.append(f"{fmt.count(len(audited))} from the random audit")
    if n_checked:
        values = "a value" if n_checked == 1 else "values"
        parts.append(f"{fmt.count(n_checked)} with {values} to check")
    return Tasks(run.awaited + len(audited) + n_checked, parts)


def _patients_to_check(odd: CheckValues) -> set[str]:
    """Return the patients, or rows without one, of the values to check."""
    patients = {channel.group for channel in odd.channels}
    patients.update(value.group or value.id for value in odd.values)
    patients.update(row.group or row.id for row in odd.alike)
    return patients


def sentences_of_night(run: RunDocument) -> list[str]:
    """Return what a reader of the list needs to know of it, a sentence each.

    How many of the flagged have the condition, how many patients with it are not
    flagged, and whether the table arrived as usual. With chances the numbers are
    tonight's, else they are shares of past patients.
    """
    model = run.model
    if run.expected is not None and not run.groups and not model.multi:
        sentences = _sentences_of_chances(run.expected, run.counts.flagged)
    else:
        sentences = []
        for point in model.points:
            of_class = f"{fmt.name(point.label)}: " if model.multi else ""
            for sentence in _sentences_of_point(model, point):
                sentences.append(f"{of_class}{sentence}")
    sentences.append(_table_sentence(run))
    return [sentence for sentence in sentences if sentence]


def _sentences_of_chances(expected: ExpectedCases, n_flagged: int) -> list[str]:
    """Return how many have the condition, on the list and off it."""
    sentences = []
    if expected.ppv.value:
        n_with_chance = round((expected.flagged.value or 0.0) / expected.ppv.value)
        these = f"these {fmt.count(n_with_chance)}"
        if n_with_chance < n_flagged:
            these = f"the {fmt.count(n_with_chance)} with a chance"
        n_cases = round(expected.flagged.value or 0.0)
        if n_with_chance == 1:
            chance = fmt.percent(expected.ppv.value)
            sentences.append(
                f"The chance that this patient has the condition: {chance}."
            )
        elif n_cases:
            verb = "has" if n_cases == 1 else "have"
            sentences.append(f"About {n_cases:,} of {these} {verb} the condition.")
        else:
            sentences.append(f"Fewer than 1 of {these} has the condition.")
    n_missed = round(expected.missed.value or 0.0)
    if n_missed > 1:
        missed = f"About {n_missed:,} patients who have it are not on this list."
    else:
        number = "About" if n_missed else "Fewer than"
        missed = f"{number} 1 patient who has it is not on this list."
    if not sentences:
        missed = missed.replace(" it ", " the condition ")
    return [*sentences, missed]


def _sentences_of_point(model: ModelDocument, point: OperatingPointFacts) -> list[str]:
    """Return the same for past patients, of one watched class."""
    rows = "patients"
    if model.unit_of_review != "row" or point.n_groups is not None:
        rows = f"{model.unit_of_review}s"
    if point.lesions is not None:
        found = _per_hundred(point.lesions.sensitivity)
        return [f"About {found} of 100 lesions are found."] if found else []
    if point.flags_everything:
        return ["Every row is flagged: the past cases were too few for a threshold."]
    if model.validation.without_cases is not None and not point.n_positive:
        return ["No case has been seen: how many have the condition is unknown."]
    sentences = []
    ppv = _per_hundred(point["ppv"])
    if ppv:
        sentences.append(f"About {ppv} of 100 flagged {rows} have the condition.")
    found = _per_hundred(point["sensitivity"])
    if found is None:
        return sentences
    if found == 100:
        sentences.append("None of the past cases was missed; new ones may be.")
        return sentences
    pronoun = "who" if rows == "patients" else "that"
    cases = f"{rows} {pronoun} have it" if sentences else f"{rows} with the condition"
    sentences.append(f"About {100 - found} of 100 {cases} are not flagged.")
    return sentences


def _per_hundred(share: Estimate) -> int | None:
    """Return a share as a number of 100; None if it is unknown."""
    return None if share.value is None else round(100 * share.value)


def _table_sentence(run: RunDocument) -> str:
    """Return whether the table of the night arrived as usual, and when it was written.

    Empty if neither is known.
    """
    came = run.delivery
    written = ""
    if run.times.table_written:
        written = f", written {fmt.name(run.times.table_written)}"
    if came is None or not (came.before or came.usual or came.found):
        return f"The table was{written[1:]}." if written else ""
    if came.accepted:
        return (
            f"The table was accepted by hand{written}: {fmt.text(came.accepted, 200)}."
        )
    if came.found or came.doubtful:
        return f"The table did not arrive as usual{written}."
    return f"The table arrived as usual{written}."


STRIP_WIDTH = 720
STRIP_HEIGHT = 74
# Height of the axis below the dots, and of one dot.
FLOOR = 70
DOT_HEIGHT = 6
MAX_DOTS = 10
"""Dots in a column; on a larger night each represents several rows."""


def score_strip(run: RunDocument) -> dict[str, object] | None:
    """Return every score of a night as a dot, over the scores of past cases.

    None where scores were not counted.
    """
    scale = run.scale
    if scale is None or not sum(scale.tonight):
        return None
    counts = list(scale.tonight)
    # The highest scores are flagged, as many as there are to review.
    n_higher = np.cumsum(counts[::-1])[::-1] - counts
    flagged = np.clip(run.to_review - n_higher, 0, counts).tolist()
    unflagged = [n - n_flagged for n, n_flagged in zip(counts, flagged, strict=True)]
    rows_a_dot = -(-max(counts) // MAX_DOTS)
    unit = run.model.unit_of_review
    if run.groups or unit == "row":
        unit = "patient"
    if rows_a_dot == 1:
        legend = f"each dot: 1 {unit}"
    else:
        legend = f"each dot: up to {fmt.plural(rows_a_dot, unit)}"
    n_flagged = sum(flagged)
    n_past = sum(scale.past_cases)
    threshold = 0.0 if run.model.by_excess else run.model.points[0].threshold
    width_a_unit = STRIP_WIDTH / (scale.high - scale.low)
    room = None
    if run.stopping:
        room = _inside((run.stopping.score - scale.low) * width_a_unit)
    return {
        "width": STRIP_WIDTH,
        "height": STRIP_HEIGHT,
        "rest": _dots(unflagged, flagged, rows_a_dot),
        "flagged": _dots(flagged, [0] * len(counts), rows_a_dot),
        "past": _past_cases(scale.past_cases),
        "threshold": _inside((threshold - scale.low) * width_a_unit),
        "room": room,
        "each": legend,
        "past_cases": fmt.count(n_past),
        "spoken": f"From low to high scores: {fmt.count(sum(counts) - n_flagged)} "
        f"below the threshold, {fmt.count(n_flagged)} at or above it. Behind them "
        f"{fmt.plural(n_past, 'past case')}.",
    }


def _past_cases(counts: Sequence[int]) -> Markup:
    """Return the outline of an area: past cases, in sums of five neighbouring steps."""
    sums = np.convolve(counts, np.ones(5))[2:-2].tolist()
    highest = max(sums) or 1
    step = STRIP_WIDTH / len(counts)
    corners = [
        f"L{(index + 0.5) * step:.0f} {FLOOR - 0.9 * FLOOR * n / highest:.0f}"
        for index, n in enumerate(sums)
    ]
    return Markup(f"M0 {FLOOR}{''.join(corners)}L{STRIP_WIDTH} {FLOOR}Z")


def _dots(counts: Sequence[int], below: Sequence[int], rows_a_dot: int) -> Markup:
    """Return a column of dots a step, above the dots of `below`.

    A column is one dashed line, which takes few letters.
    """
    step = STRIP_WIDTH / len(counts)
    columns = []
    for index, (n_rows, n_below) in enumerate(zip(counts, below, strict=True)):
        if not n_rows:
            continue
        n_dots = -(-n_rows // rows_a_dot)
        n_dots_below = -(-n_below // rows_a_dot)
        base = FLOOR - DOT_HEIGHT * n_dots_below - DOT_HEIGHT / 2
        length = DOT_HEIGHT * (n_dots - 1) + 0.1
        columns.append(f"M{(index + 0.5) * step:.0f} {base:g}v-{length:g}")
    return Markup("".join(columns))


def _inside(x: float) -> float | None:
    """Return a position rounded to a tenth; None outside the picture."""
    return round(x, 1) if 0 <= x <= STRIP_WIDTH else None

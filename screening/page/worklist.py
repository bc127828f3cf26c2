"""The list from its top: where the reviews of a night end, what is folded, and what the page filters by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from screening.documents.case import Case, GroupFacts
from screening.documents.figures import Share
from screening.documents.run import RunDocument
from screening.page import format as shown
from screening.page.cases import Line, line_of_case, line_of_group
from screening.page.values import others
from screening.page.voxels import Patient

OPEN = 50
"""Lines in sight at first; the others are folded in stretches."""
ROWS_OF_PATIENT = 5
STATES = {"new": "new", "ongoing": "ongoing", "reviewed": "judged not a case", "known": "known"}


@dataclass(frozen=True)
class Part:
    """A stretch of the list; all but the first are folded.

    `stop` says what is found by stopping before it, `title` what the fold holds.
    """

    lines: Sequence[Line]
    start: int = 1
    title: str = ""
    stop: str = ""
    judged: bool = False


@dataclass(frozen=True)
class Worklist:
    """Whom to look at, in order."""

    parts: Sequence[Part]
    near: Sequence[Line]
    near_lowest: str
    others: Sequence[Line]
    columns: Sequence[str]
    wards: Sequence[str]
    states: Sequence[tuple[str, str]]
    people: str
    order: str
    odds: str
    n_lines: int
    unnamed: str
    pictured: bool


def worklist(run: RunDocument, volumes: Sequence[Patient], places: int) -> Worklist:
    """Return the list of a night.

    Parameters
    ----------
    volumes : sequence of Patient
        Those of the voxel block.
    places : int
        Decimals of scores.
    """
    lines = _patients(run, volumes, places) if run.groups else _rows(run, places)
    flagged = lines[: run.to_review]
    near = [line_of_case(run, case, places) for case in run.near_misses]
    named: list[Case | GroupFacts] = [*run.cases, *(run.groups or ())]
    columns = list(next((each.display for each in named if each.display), {}))
    states = {line.state for line in flagged}
    return Worklist(
        parts=_parts(run, flagged),
        near=near,
        near_lowest=near[-1].score if near else "",
        others=lines[run.to_review :],
        columns=[shown.feature(name) for name in columns],
        wards=sorted({line.place[0] for line in flagged if line.place}),
        states=[(state, words) for state, words in STATES.items() if state in states],
        people=others(run.model),
        order="furthest above the threshold first" if run.model.by_excess else "highest score first",
        odds="Chance" if any(case.chance is not None for case in run.cases) and not run.groups else "Rarity",
        n_lines=len(flagged),
        unnamed=_unnamed(run.to_review, len(flagged), erased=bool(run.erased)),
        pictured=bool(run.groups),
    )


def _unnamed(flagged: int, named: int, *, erased: bool) -> str:
    """Say where those are who were flagged and are not in the list."""
    if flagged <= named:
        return ""
    more, total = shown.count(flagged - named), shown.count(flagged)
    if erased:
        return f"{more} of {total} flagged are not named here: erased since, or in flagged.csv alone."
    return f"{more} more are flagged and stand in flagged.csv alone: {shown.count(named)} of {total} shown."


def _rows(run: RunDocument, places: int) -> list[Line]:
    return [line_of_case(run, case, places, rank) for rank, case in enumerate(run.cases, start=1)]


def _patients(run: RunDocument, volumes: Sequence[Patient], places: int) -> list[Line]:
    rows: dict[str, list[Line]] = defaultdict(list)
    for case in run.cases:
        if case.group is not None and len(rows[case.group]) < ROWS_OF_PATIENT:
            rows[case.group].append(line_of_case(run, case, places))
    pictured = {volume.group: volume for volume in volumes}
    return [
        line_of_group(
            run, group, rows[group.group], pictured.get(group.group), places,
            rank if group.flagged else None,
        )
        for rank, group in enumerate(run.groups or (), start=1)
    ]  # fmt: skip


def _parts(run: RunDocument, flagged: Sequence[Line]) -> list[Part]:
    waiting = [line for line in flagged if not line.judged]
    judged = [line for line in flagged if line.judged]
    room = run.stopping.reviews if run.stopping else None
    cuts = sorted({0, len(waiting), *(cut for cut in (OPEN, room) if cut and cut < len(waiting))})
    parts = []
    for start, stop in pairwise(cuts):
        beyond = room is not None and start >= room
        words = f"{shown.count(start + 1)} to {shown.count(stop)} of {shown.count(len(waiting))}"
        parts.append(
            Part(
                waiting[start:stop],
                start + 1,
                f"{words}{', beyond your reviews' if beyond else ''}" if start else "",
                _stopping(run) if start == room else "",
            )
        )
    if judged:
        parts.append(
            Part(judged, 1, f"{shown.count(len(judged))} judged before: no work of tonight", "", True)
        )
    return parts


def _stopping(run: RunDocument) -> str:
    """What the reviews there is room for find, as past cases tell."""
    found = run.stopping
    if found is None:
        return ""
    return (
        f"Your {shown.plural(found.reviews, 'review')} end here. They find about {_of_hundred(found.found)} "
        f"cases, the whole list about {_of_hundred(found.all_found)}: so {shown.count(found.n_cases)} past "
        "ones tell."
    )


def _of_hundred(share: Share) -> str:
    return f"{100 * share.value:.0f} of 100 ({100 * share.low:.0f}–{100 * share.high:.0f})"

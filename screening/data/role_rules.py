"""Rules by which columns without a contract get roles: outcome, id, patient, time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Contract, Draft
from screening.data.column_names import is_called
from screening.data.dependence import FEW_VALUES, Sign
from screening.data.feature_rules import (
    counts_instants,
    counts_rows,
    counts_time,
)
from screening.data.ids import sizes_of_stems
from screening.data.labels import rare_classes
from screening.data.outcome_rules import (
    POINTS_OF_WORD,
    OutcomeColumn,
    infer_positive,
    is_sure_case,
    likeliest_outcome,
    listed,
    ranked,
)
from screening.data.summary import ColumnSummary
from screening.io.readers import Block, SourceFile
from screening.schemas.base import Reason
from screening.schemas.reasons import GUESSED
from screening.spelling import first_of, quoted_list

# Names of columns in one note.
MAX_NAMES = 20
# Roles whose guess is stated in a note, in this order.
AS_LIKELY = "equally likely outcomes, with the share of the rarest value:"
STATED_ROLES = ("label", "positive", "id", "group", "fill_down", "time", "coordinates")


@dataclass(frozen=True)
class TableSummary:
    """What roles are guessed from: a table that was read once.

    Parameters
    ----------
    columns : mapping from str to ColumnSummary
        The columns that are not dropped, in the order of the table.
    keys : mapping from str to pa.Array
        Texts of the columns that are called as rows or patients are, "" where blank.
    follow_up : mapping from str to float
        Dependence of follow-up times on columns, as `follow_up_strengths` returns it.
    head : sequence of (SourceFile, Block)
        The first blocks, which show whether rows belong to the same patients.
    """

    columns: Mapping[str, ColumnSummary]
    keys: Mapping[str, pa.Array]
    follow_up: Mapping[str, float] = field(default_factory=dict)
    head: Sequence[tuple[SourceFile, Block]] = ()

    @cached_property
    def row_numbers(self) -> list[str]:
        """Columns of whole numbers that number the rows."""
        return [
            name for name, summary in self.columns.items() if counts_rows(name, summary)
        ]


def outcome_candidates(table: TableSummary, contract: Contract) -> list[OutcomeColumn]:
    """Return the columns that may be the outcome, the likeliest first."""
    taken = taken_columns(contract) - {contract.label} | {*table.row_numbers}
    free = [name for name in table.columns if name not in taken]
    at_end = {*free[:1], *free[-1:]}
    strengths = {name: table.follow_up.get(name, 0.0) for name in free}
    strongest = max(strengths.values(), default=0.0)
    columns = [
        OutcomeColumn(
            name,
            table.columns[name],
            is_at_end=name in at_end,
            has_follow_up=0 < strengths[name] == strongest,
        )
        for name in free
    ]
    return ranked(columns)


def infer_roles(
    table: TableSummary, draft: Draft, independent: bool, label_optional: bool
) -> None:
    """Set the roles that a draft does not name.

    Parameters
    ----------
    table : TableSummary
    draft : Draft
    independent : bool
        Every row is a patient of its own, so that no column is the patient.
    label_optional : bool
        The table may have no label: only a column of a sure name is guessed.
    """
    if not draft.label:
        candidates = outcome_candidates(table, draft)
        guess = likeliest_outcome(candidates)
        if guess and (guess.has_sure_name or not label_optional):
            draft.label = guess.name
    if draft.label and not draft.positive:
        case = infer_positive(draft.label, table.columns[draft.label].counts)
        draft.positive = [] if case is None else [case]
    _infer_keys(table, draft, independent)
    draft.time = draft.time or _infer_time(table, taken_columns(draft))


def _infer_keys(table: TableSummary, draft: Draft, independent: bool) -> None:
    """Set id and group: the first column of unique keys, the first of patients."""
    taken = taken_columns(draft)
    for name, keys in table.keys.items():
        summary = table.columns[name]
        if name in taken or summary.present < summary.rows:
            continue
        if 0 < len(keys) == len(pc.unique(keys)):
            draft.id = draft.id or name
        elif not independent and _names_patients(name, summary, draft):
            draft.group = draft.group or name
    counters = [
        name
        for name in table.row_numbers
        if name not in taken and _numbers_rows_with_gaps(name, table.columns[name])
    ]
    if len(counters) == 1:
        draft.id = draft.id or counters[0]


def _numbers_rows_with_gaps(name: str, summary: ColumnSummary) -> bool:
    """Return True for numbers of rows that rise and leave some out.

    They number the rows of a larger table, where the row can be found again.
    """
    has_gaps = summary.high - summary.low + 1 > summary.rows
    return has_gaps and summary.rising and not is_called(name, "quantity")


def _names_patients(name: str, summary: ColumnSummary, contract: Contract) -> bool:
    """Return True for a column that is called so, and has the values for it."""
    # Voxels may well be of two patients.
    min_patients = 1 if contract.coordinates else FEW_VALUES
    return is_called(name, "patient") and summary.n_texts >= min_patients


def _infer_time(table: TableSummary, taken: set[str | None]) -> str | None:
    """Infer the time of rows: the only column of dates that may be it.

    Its name says so, or its numbers are instants.
    """
    dated = []
    unnamed = []
    for name, summary in table.columns.items():
        if name in taken or not _has_times(name, summary):
            continue
        if is_called(name, "other time"):
            continue
        if is_called(name, "time"):
            dated.append(name)
        elif counts_instants(name, summary):
            unnamed.append(name)
    # A name says more than the values.
    candidates = dated or unnamed
    return candidates[0] if len(candidates) == 1 else None


def _has_times(name: str, summary: ColumnSummary) -> bool:
    """Return True for a column in which every row has a date, or a count of time."""
    is_complete = 0 < summary.rows == summary.present
    is_dated = bool(summary.date_orders) and summary.dates == summary.rows
    return is_dated or (is_complete and counts_time(name, summary))


def infer_coordinates(table: TableSummary, contract: Contract) -> list[str]:
    """Infer the columns x, y and z of voxels, unless they have another role."""
    taken = taken_columns(contract) | {*contract.subgroup}
    free = {name.lower(): name for name in table.columns if name not in taken}
    if contract.coordinates or not {"x", "y", "z"} <= free.keys():
        return contract.coordinates
    axes = [free[axis] for axis in "xyz"]
    if all(table.columns[axis].on_grid for axis in axes):
        return axes
    return []


def infer_stems(table: TableSummary, draft: Draft) -> list[str]:
    """Set `group_stem` where the group names rows, not patients; return a note on it.

    That is so where names are stems with a running end.
    """
    is_settled = (
        not draft.group or draft.group_stem or draft.coordinates or draft.fill_down
    )
    if is_settled:
        return []
    keys = table.keys[str(draft.group)]
    names = pc.utf8_trim_whitespace(keys).to_pylist()
    sizes = sizes_of_stems(names)
    if not sizes:
        return []
    draft.group_stem = True
    return [
        f"column '{draft.group}': the patient is the stem of a row's name, without "
        f"its running number ({len(sizes):,} patients)"
    ]


def infer_group(draft: Draft, signs: Sequence[Sign]) -> None:
    """Make the column that separates patients the group."""
    sign = next((sign for sign in signs if sign.column), None)
    if sign is None or sign.column is None or draft.group:
        return
    draft.group = sign.column
    if sign.kind == "first_row_only":
        draft.fill_down = [sign.column]
    if sign.kind == "stem":
        draft.group_stem = True
        draft.id = draft.id or sign.column


def coordinates_of_groups(table: TableSummary, draft: Draft) -> list[str]:
    """Set the coordinates of voxels; return a note on them.

    Rows of a group with x, y and z are voxels; their position is not a feature.
    """
    if not draft.group:
        return []
    coordinates = infer_coordinates(table, draft)
    if coordinates == draft.coordinates:
        return []
    draft.coordinates = coordinates
    return [f"guessed role coordinates: {', '.join(coordinates)}"]


def infer_date_order(table: TableSummary, draft: Draft) -> None:
    """Set the notation of the dates, as far as they allow."""
    summary = table.columns.get(draft.time or "")
    if summary is None or draft.date_order or draft.date_numbers:
        return
    if not summary.dates:
        draft.date_numbers = summary.date_numbers
    elif summary.day_or_month_first and summary.date_orders:
        draft.date_order = min(summary.date_orders)


def taken_columns(contract: Contract) -> set[str | None]:
    """Return the columns with a role that excludes them as features."""
    roles = {contract.id, contract.group, contract.label, contract.time}
    return {*roles, *contract.coordinates, *contract.drop, *contract.display}


def guessed_columns(
    table: TableSummary, contract: Contract, guessed: Contract
) -> list[str]:
    """Return a note on each role for which a column was guessed.

    `contract` has the roles that were named, `guessed` all.
    """
    roles = [role for role in STATED_ROLES if role != "positive"]
    return [
        _guess_note(table, guessed, role, getattr(guessed, role))
        for role in roles
        if getattr(guessed, role) and not getattr(contract, role)
    ]


def role_notes(
    table: TableSummary,
    contract: Contract,
    guessed: Contract,
    candidates: Sequence[OutcomeColumn],
    rivals: Sequence[OutcomeColumn],
) -> Iterator[str]:
    """Yield what is said of the guessed roles, and what of them is to be reviewed.

    Parameters
    ----------
    table : TableSummary
    contract, guessed : Contract
        With the roles that were named, and with all.
    candidates : sequence of OutcomeColumn
        What the outcome may be, as `outcome_candidates` ranks it beside the roles.
    rivals : sequence of OutcomeColumn
        Those about as likely as the outcome, if that was guessed.
    """
    for role in STATED_ROLES:
        value = getattr(guessed, role)
        if value and not getattr(contract, role):
            yield _guess_note(table, guessed, role, value)
    yield from _outcome_notes(guessed, candidates, rivals)
    if not guessed.id:
        yield (
            "no column identifies the rows, so their numbers are used as ids; set "
            "`id` if there is such a column"
        )
    yield from _date_notes(table, guessed)
    label = table.columns.get(guessed.label or "")
    if label is not None:
        yield from _label_notes(label, guessed)


def _label_notes(label: ColumnSummary, guessed: Contract) -> Iterator[str]:
    """Yield notes on classes if none is named, and on rows without a label."""
    if 2 < len(label.counts) <= MAX_NAMES and not guessed.positive:
        yield _note_on_classes(label.counts, guessed)
    if label.present < label.rows and guessed.unlabelled == "refuse":
        yield (
            f"column '{guessed.label}': some rows have no label; fill them, or set "
            'unlabelled = "no" (blank is no) or "leave_out"'
        )


def _guess_note(
    table: TableSummary, guessed: Contract, role: str, value: str | Sequence[str]
) -> str:
    """Return the note on a role that was guessed."""
    names = value if isinstance(value, str) else ", ".join(value)
    note = f"guessed role {role}: {names}"
    label = table.columns.get(guessed.label or "")
    is_one_class = role == "positive" and len(value) == 1
    if is_one_class and label and len(label.counts) == 2:
        (other,) = {*label.counts} - {*value}
        share = label.counts[value[0]] / label.counts.total()
        note += (
            f" ({share:.0%} of rows; if {other} is the case, set `positive` to "
            f"{quoted_list([other])})"
        )
    return note


def _note_on_classes(counts: Mapping[str, int], guessed: Contract) -> str:
    """Return what training would find of several classes if none is named."""
    rare = rare_classes(counts, guessed)
    rest = [name for name in sorted(counts) if name not in rare]
    return (
        f"column '{guessed.label}' has {len(counts)} classes, and `positive` names "
        f"none. Training would watch {', '.join(rare)}, each as a class of its own. "
        f"It would not watch {', '.join(rest)}. To name others: {_naming(*rare)}"
    )


def _naming(*cases: str) -> str:
    """Return the option that names the classes of cases, as it is typed in a shell."""
    return "--positive " + quoted_list(cases)


def likely_outcomes(candidates: Sequence[OutcomeColumn]) -> str:
    """Return the end of a sentence that names ranked candidates, "" for none."""
    if not candidates:
        return ""
    return f"; likely, with the share of the rarest value: {listed(candidates)}"


def _outcome_notes(
    guessed: Contract,
    candidates: Sequence[OutcomeColumn],
    rivals: Sequence[OutcomeColumn],
) -> Iterator[str]:
    """Yield notes on other columns that may be the outcome."""
    if not guessed.label:
        note = "no outcome recognised: set `label` to its column"
        yield note + likely_outcomes(candidates)
        return
    if rivals:
        yield f"{AS_LIKELY} {listed(rivals)}"
    names = [
        column.name
        for column in candidates
        if column.name != guessed.label and column.points_of_name >= POINTS_OF_WORD
    ]
    if names:
        yield (
            "possible outcomes among the features: "
            f"{first_of(names, MAX_NAMES)}; drop those known only later"
        )


def role_doubts(
    table: TableSummary,
    contract: Contract,
    guessed: Contract,
    rivals: Sequence[OutcomeColumn],
) -> Iterator[Reason]:
    """Yield the guesses of the outcome and its case that may well be wrong.

    Parameters as for `role_notes`.
    """
    label = guessed.label
    if not label:
        return
    if rivals:
        yield GUESSED(
            column=label,
            guess=f"the outcome is column '{label}'; equally likely, with the share of "
            f"the rarest value, are {listed(rivals)}",
            remedy="Name the outcome with --label.",
        )
    counts = table.columns[label].counts
    if contract.positive or len(guessed.positive) != 1 or len(counts) != 2:
        return
    (case,) = guessed.positive
    if case in counts and not is_sure_case(case, counts):
        (other,) = {*counts} - {case}
        share = counts[case] / sum(counts.values())
        yield GUESSED(
            column=label,
            guess=f"the cases are the rows with {case} in column '{label}', "
            f"{share:.0%} of all",
            remedy=f"Say which are the cases: {_naming(case)} or {_naming(other)}.",
        )


def _date_notes(table: TableSummary, guessed: Contract) -> Iterator[str]:
    """Yield a note on how dates are read, where that was guessed."""
    if guessed.date_numbers:
        yield (
            f"column '{guessed.time}': dates are read as {guessed.date_numbers}; "
            "review date_numbers"
        )
    summary = table.columns.get(guessed.time or "")
    if summary and summary.day_or_month_first:
        leads = "day" if guessed.date_order == "dmy" else "month"
        note = f"column '{guessed.time}': dates are read with the {leads} first"
        is_open = len(summary.date_orders) > 1
        yield f"{note}; review date_order" if is_open else note

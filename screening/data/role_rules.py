"""Rules by which columns without a contract get roles: outcome, id, patient, time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from screening.contract.contract import Contract
from screening.data.column_names import LABELS, YES_NO, is_called
from screening.data.dependence import FEW_VALUES
from screening.data.ids import sizes_of_stems
from screening.data.labels import MIN_ROWS_OF_LABEL, affirmative_class, positive_of_two
from screening.data.summary import ColumnSummary
from screening.errors import UsageError
from screening.spelling import first_of

# An outcome has at most so many values.
MAX_CLASSES = 20
# A column of two values may be an outcome where the rarer has at most this share.
MAX_RARE_SHARE = 0.3
# Names of columns in one note.
MAX_NAMES = 20
# Roles whose guess is stated in a note, in this order.
STATED_ROLES = ("label", "positive", "id", "group", "fill_down", "time", "coordinates")


@dataclass(frozen=True)
class RoleColumns:
    """What roles are guessed from.

    Parameters
    ----------
    columns : mapping from str to ColumnSummary
        The columns that are not dropped, in the order of the table.
    keys : mapping from str to pa.Array
        Texts of the columns that are called as rows or patients are, "" where blank.
    """

    columns: Mapping[str, ColumnSummary]
    keys: Mapping[str, pa.Array]


@dataclass(frozen=True)
class OutcomeSign:
    """A sign that a column is the outcome."""

    name: str
    applies: Callable[[str, ColumnSummary], bool]
    by_name: bool  # a word of the column's name says so


def _has_two_values(summary: ColumnSummary) -> bool:
    return summary.n_texts == 2 or summary.ticked


def _is_label(name: str) -> bool:
    return name.lower() in LABELS


def _has_rare_value(summary: ColumnSummary) -> bool:
    rarest = min(summary.counts.values(), default=0)
    return 0 < rarest <= MAX_RARE_SHARE * summary.present


# The surest first.
OUTCOME_SIGNS = (
    OutcomeSign(
        "label of two values",
        lambda name, summary: _is_label(name) and _has_two_values(summary),
        by_name=True,
    ),
    OutcomeSign(
        "outcome of two values",
        lambda name, summary: _has_two_values(summary) and is_called(name, "outcome"),
        by_name=True,
    ),
    # After those of two values: a cabin has a class, beside who survived.
    OutcomeSign(
        "label of several values",
        lambda name, summary: _is_label(name) and 2 < summary.n_texts <= MAX_CLASSES,
        by_name=True,
    ),
    OutcomeSign(
        "name that asks yes or no",
        lambda name, summary: _has_two_values(summary) and bool(YES_NO.fullmatch(name)),
        by_name=False,
    ),
    OutcomeSign(
        "rare value of two",
        lambda name, summary: summary.n_texts == 2 and _has_rare_value(summary),
        by_name=False,
    ),
    OutcomeSign(
        "two values", lambda name, summary: summary.n_texts == 2, by_name=False
    ),
    # A number: somebody has to make classes of it.
    OutcomeSign(
        "label of many values", lambda name, summary: _is_label(name), by_name=False
    ),
)


def outcome_candidates(
    table: RoleColumns, contract: Contract, by_name: bool = False
) -> list[str]:
    """Return the columns that may be the outcome, the likeliest first.

    `by_name`: only those of which a word of the name says so.
    """
    ranks: dict[str, tuple[int, int]] = {}
    taken = taken_columns(contract) - {contract.label}
    for position, (name, summary) in enumerate(table.columns.items()):
        if name in taken or summary.unreadable:
            continue
        for rank, sign in enumerate(OUTCOME_SIGNS):
            if sign.applies(name, summary):
                if sign.by_name or not by_name:
                    ranks[name] = rank, _rank_within(sign, name, position)
                break
    return sorted(ranks, key=ranks.__getitem__)


def _rank_within(sign: OutcomeSign, name: str, position: int) -> int:
    """Return the place of a column among those of one sign."""
    if sign.name in ("label of two values", "label of several values"):
        return LABELS.index(name.lower())
    if sign.name == "two values":
        # Outcomes stand at the end of a table more often than at its beginning.
        return -position
    return position


def infer_positive(label: str, counts: Mapping[str, int]) -> str | None:
    """Return the value of an outcome that is a case, by the rows of each value.

    None where there are not two values, none or both say so, or a rare one may be a
    slip of the pen.
    """
    if len(counts) != 2 or min(counts.values()) < MIN_ROWS_OF_LABEL:
        return None
    try:
        case = positive_of_two(counts)
    except UsageError:
        return None
    if is_called(label, "well") and case == affirmative_class(list(counts)):
        return next(value for value in counts if value != case)
    return case


def infer_roles(
    table: RoleColumns, contract: Contract, independent: bool
) -> dict[str, Any]:
    """Return the roles that a contract does not name, as arguments of `with_roles`.

    `independent`: every row is a patient of its own, so that no column is the patient.
    """
    candidates = outcome_candidates(table, contract, by_name=True)
    label = contract.label or next(iter(candidates), None)
    roles: dict[str, Any] = {"label": label}
    if label and not contract.positive:
        case = infer_positive(label, table.columns[label].counts)
        if case is not None:
            roles["positive"] = [case]
    taken = taken_columns(contract) | {label}
    roles |= _infer_keys(table, contract, taken, independent)
    if not contract.time:
        taken |= {roles.get("id"), roles.get("group")}
        roles["time"] = _infer_time(table, taken)
    return roles


def _infer_keys(
    table: RoleColumns, contract: Contract, taken: set[str | None], independent: bool
) -> dict[str, str]:
    """Return id and group: the first column of unique keys, the first of patients."""
    # Voxels may well be of two patients.
    min_patients = 1 if contract.coordinates else FEW_VALUES
    roles: dict[str, str] = {}
    for name, keys in table.keys.items():
        summary = table.columns[name]
        if name in taken or summary.present < summary.rows:
            continue
        is_patient = is_called(name, "patient") and summary.n_texts >= min_patients
        if 0 < len(keys) == len(pc.unique(keys)):
            roles.setdefault("id", contract.id or name)
        elif is_patient and not independent:
            roles.setdefault("group", contract.group or name)
    return roles


def _infer_time(table: RoleColumns, taken: set[str | None]) -> str | None:
    """Return the only column of dates whose name says that it is the row's own."""
    dated = []
    for name, summary in table.columns.items():
        is_dated = summary.date_orders and 0 < summary.rows == summary.dates
        if name in taken or not is_dated:
            continue
        if is_called(name, "time") and not is_called(name, "other time"):
            dated.append(name)
    return dated[0] if len(dated) == 1 else None


def infer_coordinates(table: RoleColumns, contract: Contract) -> list[str]:
    """Return the columns x, y and z of voxels where they have no other role."""
    taken = taken_columns(contract) | {*contract.subgroup}
    free = {name.lower(): name for name in table.columns if name not in taken}
    if contract.coordinates or not {"x", "y", "z"} <= free.keys():
        return contract.coordinates
    axes = [free[axis] for axis in "xyz"]
    if all(table.columns[axis].on_grid for axis in axes):
        return axes
    return []


def with_stems(table: RoleColumns, contract: Contract, notes: list[str]) -> Contract:
    """Return the contract with `group_stem` where its group names rows, not patients.

    That is so where names are stems with a running end; a note then says so.
    """
    is_settled = (
        not contract.group
        or contract.group_stem
        or contract.coordinates
        or contract.fill_down
    )
    if is_settled:
        return contract
    names = pc.utf8_trim_whitespace(table.keys[str(contract.group)]).to_pylist()
    sizes = sizes_of_stems(names)
    if not sizes:
        return contract
    notes.append(
        f"column '{contract.group}': the patient is the stem of a row's name, without "
        f"its running end ({len(sizes):,} patients)"
    )
    return contract.with_roles(group_stem=True)


def taken_columns(contract: Contract) -> set[str | None]:
    """Return the columns with a role for which they are no features."""
    roles = {contract.id, contract.group, contract.label, contract.time}
    return {*roles, *contract.coordinates, *contract.drop, *contract.display}


def role_notes(
    table: RoleColumns, contract: Contract, guessed: Contract
) -> Iterator[str]:
    """Yield what is said of the guessed roles, and what of them is to be reviewed.

    `contract` has the roles that were named, `guessed` all.
    """
    for role in STATED_ROLES:
        value = getattr(guessed, role)
        if value and not getattr(contract, role):
            yield _guess_note(table, guessed, role, value)
    yield from _outcome_notes(table, guessed)
    if not guessed.id:
        yield (
            "no column names the rows: their numbers are their ids; set `id` if there "
            "is one"
        )
    yield from _date_notes(table, guessed)
    label = table.columns.get(guessed.label or "")
    if label and not contract.label and label.present < label.rows:
        yield (
            f"column '{guessed.label}': some rows have no label; fill them or leave "
            "them out"
        )


def _guess_note(
    table: RoleColumns, guessed: Contract, role: str, value: str | Sequence[str]
) -> str:
    names = value if isinstance(value, str) else ", ".join(value)
    note = f"guessed role {role}: {names}"
    label = table.columns.get(guessed.label or "")
    if role == "positive" and label and len(value) == 1 and len(label.counts) == 2:
        (other,) = {*label.counts} - {*value}
        share = label.counts[value[0]] / label.counts.total()
        note += (
            f", {share:.0%} of rows (if the others are the cases, give --positive "
            f"{other})"
        )
    return note


def _outcome_notes(table: RoleColumns, guessed: Contract) -> Iterator[str]:
    candidates = outcome_candidates(table, guessed, by_name=bool(guessed.label))
    others = [name for name in candidates if name != guessed.label]
    names = first_of(others, MAX_NAMES)
    if not guessed.label:
        note = "no outcome recognised: set `label` to its column, or give --label"
        yield f"{note}; it may be {names}" if others else note
    elif others:
        yield (
            f"read as features, though they may be outcomes too: {names}; drop what is "
            "known later"
        )


def _date_notes(table: RoleColumns, guessed: Contract) -> Iterator[str]:
    summary = table.columns.get(guessed.time or "")
    if summary and summary.day_or_month_first:
        leads = "day" if guessed.date_order == "dmy" else "month"
        note = f"column '{guessed.time}': dates are read with the {leads} first"
        is_open = len(summary.date_orders) > 1
        yield f"{note}; review date_order" if is_open else note

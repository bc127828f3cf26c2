"""A starter contract for a table, for a person to review: roles by names and by what rows share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from screening.cohort.column_names import LABELS, TIMES, is_called
from screening.cohort.dependence import Sign, dependence
from screening.cohort.ids import hashed
from screening.cohort.reading import contract_of, opened
from screening.cohort.role_inference import FEW_VALUES, inferred, summaries_of, texts_of, with_coordinates
from screening.cohort.stream import CohortStream
from screening.cohort.summary import ColumnSummary
from screening.contract.contract import Contract
from screening.sources.opening import Readable
from screening.sources.readers import Source

MOST_CLASSES = 20


def starter_contract(
    source: Readable, *, label: str | None = None, positive: str | Sequence[str] | None = None,
    id: str | None = None, group: str | None = None, drop: str | Sequence[str] = (),
) -> tuple[Contract, list[str]]:  # fmt: skip
    """A starter contract for a table, for a person to review, and notes on what was guessed.

    Unlike the inference of `read_cohort` it guesses roles, the patient of several rows among them, lists
    categories and ranges (`seen`: 1st to 99th percentile), and declares missing-value codes and censoring it
    meets, so that the table reads with it.
    """
    given = contract_of(None, label=label, positive=positive, id=id, group=group, drop=drop)
    files, given = opened(source, given)
    guesses: list[str] = []
    summaries = summaries_of(files, given)
    roles = guessed_roles(files, summaries, given, guesses)
    contract, notes = inferred(files, roles, summaries)
    signs = dependence(files, contract)
    if found := proposed(signs, contract, given):
        contract, notes = inferred(files, roles.with_roles(**found), summaries)
    # What cannot be read with it is said now, with place and remedy, and not by the next command.
    CohortStream(files, contract).check()
    return contract, [*files.notes, *guesses, *notes, *(sign.note for sign in signs)]


def proposed(signs: Sequence[Sign], contract: Contract, given: Contract) -> dict[str, str | bool | list[str]]:
    """Roles for a starter contract by the surest sign, beside those given; none where no column tells."""
    sign = next((sign for sign in signs if sign.column and not contract.group), None)
    if sign is None or sign.column is None:
        return {}
    if sign.kind == "first_row_only":
        return {"drop": [*given.drop, sign.column]}
    if sign.kind == "stem":
        return {"group": sign.column, "group_stem": True, "id": contract.id or sign.column}
    return {"group": sign.column}


def guessed_roles(
    source: Source, summaries: Mapping[str, ColumnSummary], given: Contract, notes: list[str]
) -> Contract:
    """Roles by obvious column names, where none was given."""
    given = with_coordinates(summaries, given, notes)
    # Voxels may well be of two patients.
    fewest = 1 if given.coordinates else FEW_VALUES
    taken = {given.id, given.group, given.label, given.time, *given.coordinates, *given.drop}
    free = {name.lower(): name for name in summaries if name not in taken}
    found: dict[str, str | None] = {}
    if not given.label:
        named = (name for name in LABELS if name in free and _few(summaries[free[name]]))
        found["label"] = free.pop(next(named, ""), None)
    for lower, name in list(free.items()):
        summary = summaries[name]
        if not is_called(name, "row", "patient") or summary.present < summary.rows:
            continue
        if _all_differ(source, name):
            role = "id"
        elif is_called(name, "patient") and summary.n_texts >= fewest:
            role = "group"
        else:
            continue
        if not getattr(given, role) and not found.get(role):
            found[role] = free.pop(lower)
    if not given.time:
        found["time"] = _time({lower: name for lower, name in free.items() if _dated(summaries[name])})
    notes += [f"guessed role {role}: {column}" for role, column in found.items() if column]
    if not given.label and not found["label"]:
        notes.append("no column names the outcome: to train, set `label` to it, or give --label")
    if not found.get("id") and not given.id:
        notes.append("no column names the rows: their numbers are their ids; set `id` if there is one")
    if found["time"] and summaries[found["time"]].day_or_month_first:
        orders = summaries[found["time"]].date_orders
        found["date_order"] = min(orders)
        doubt = "" if len(orders) == 1 else ", though the month might be; review date_order"
        leads = "day" if found["date_order"] == "dmy" else "month"
        notes.append(f"column '{found['time']}': dates are read with the {leads} first{doubt}")
    label = found.get("label")
    if label and summaries[label].present < summaries[label].rows:
        notes.append(
            f"column '{label}': some rows have no label; fill them before training, or leave them out"
        )
    return given.with_roles(**found)


def _time(dated: dict[str, str]) -> str | None:
    """The row's own date: by its name, or the only one whose last word says so."""
    named = [dated[name] for name in TIMES if name in dated]
    ending = [
        name for name in dated.values() if is_called(name, "time") and not is_called(name, "other time")
    ]
    return named[0] if named else ending[0] if len(ending) == 1 else None


def _few(summary: ColumnSummary) -> bool:
    return (2 <= summary.n_texts <= MOST_CLASSES or summary.ticked) and not summary.unreadable


def _dated(summary: ColumnSummary) -> bool:
    return summary.rows > 0 and summary.dates == summary.rows and bool(summary.date_orders)


def _all_differ(source: Source, name: str) -> bool:
    parts = [hashed(words) for words in texts_of(source, name)]
    hashes = np.concatenate(parts) if parts else np.zeros(0)
    return len(np.unique(hashes)) == len(hashes) > 0

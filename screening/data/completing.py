"""The draft of a table's contract: from its file, options, kind of table and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from screening.contract.contract import Contract, Draft
from screening.data.cohort import Cohort
from screening.data.measurements import possible_range
from screening.io.opening import Readable, source_at
from screening.io.readers import Source
from screening.registry import optional
from screening.settings import TableOptions
from screening.spelling import first_of, names_from

# Ending of a contract that is written with its table.
CONTRACT_ENDING = ".contract.toml"
# Columns in the note on plausible ranges.
MAX_NAMES = 20


def contract_next_to(source: Readable) -> Path | None:
    """Return the contract that was written with a table, such as `past.contract.toml`.

    None if the table is not a file, or has none next to it.
    """
    if not isinstance(source, str | Path) or "://" in str(source):
        return None
    path = Path(source).with_suffix(CONTRACT_ENDING)
    is_there = Path(source).is_file() and path.is_file()
    return path if is_there else None


def draft_of_table(table: TableOptions, source: Readable) -> tuple[Draft, list[str]]:
    """Return the contract that options state, or that is next to the table.

    Also a note on the one next to it.
    """
    roles = table.stated()
    roles.pop("keep", None)
    contract = roles.pop("contract", None)
    if contract is not None:
        return draft_contract(contract, **roles), []
    found = contract_next_to(source)
    notes = []
    if found is not None:
        notes.append(f"the contract is {found.name}, next to the table")
    return draft_contract(found, **roles), notes


def draft_contract(
    contract: Contract | str | Path | None,
    drop: str | Sequence[str] | None = None,
    **roles: str | int | Sequence[str] | None,
) -> Draft:
    """Return a contract, of a file or an empty one, with roles put in its place.

    Columns to drop, which may be one text with commas, are added to the contract's.
    """
    roles["drop"] = names_from(drop) if isinstance(drop, str) else drop
    if isinstance(contract, str | Path):
        return Draft.load(contract, roles)
    content = {} if contract is None else contract.to_dict()
    return Draft.from_dict(content, roles=roles)


def open_source(source: Readable, draft: Draft) -> Source:
    """Open a cohort's source, and add the roles and features of such a source.

    A folder of images adds the group, a neighbourhood its features.
    """
    opened = source_at(source)
    if not draft.features and not draft.group:
        draft.group = opened.group
    if draft.neighbourhood is not None:
        neighbourhood = optional("neighbourhood")
        header = opened.files[0].header
        draft.features |= neighbourhood.features_of_channels(draft, header)
        neighbourhood.add_neighbourhood(opened, draft, draft.neighbourhood)
    return opened


def ranges_of_numbers(batches: Iterable[Cohort]) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest value of each number in the rows."""
    ranges: dict[str, tuple[float, float]] = {}
    for rows in batches:
        for name, feature in rows.contract.features.items():
            if feature.type != "number":
                continue
            measured = rows.measured[name]
            low, high = ranges.get(name, (np.inf, -np.inf))
            # Unlike `min` and `max`, these pass over missing values.
            low = float(np.fmin.reduce(measured, initial=low))
            high = float(np.fmax.reduce(measured, initial=high))
            ranges[name] = (low, high)
    return ranges


def add_plausible(draft: Draft, ranges: Mapping[str, tuple[float, float]]) -> list[str]:
    """Set `plausible` of the measurements that are known; return notes on them.

    Parameters
    ----------
    draft : Draft
    ranges : mapping of str to (float, float)
        Least and greatest value of each number in the table, which keeps to the
        contract all the same.
    """
    features = dict(draft.features)
    written = []
    for name, (low, high) in ranges.items():
        feature = features[name]
        possible = possible_range(name, feature.unit, low, high)
        if possible is None or feature.plausible:
            continue
        plausible = (possible.low, possible.high)
        features[name] = feature.model_copy(update={"plausible": plausible})
        limits = f"{possible.low:g} to {possible.high:g} {possible.unit}"
        written.append(f"'{name}' ({limits})")
    if not written:
        return []
    draft.features = features
    note = f"plausible ranges by name and unit; review: {first_of(written, MAX_NAMES)}"
    return [note]

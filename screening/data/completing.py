"""The draft of a table's contract: from its file, options and the kind of table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from screening.contract.contract import Contract, Draft
from screening.io.opening import Readable, source_at
from screening.io.readers import Source
from screening.registry import optional
from screening.settings import TableOptions
from screening.spelling import names_from

# Ending of a contract that is written with its table.
CONTRACT_ENDING = ".contract.toml"


def contract_beside(source: Readable) -> Path | None:
    """Return the contract that was written with a table, such as `past.contract.toml`.

    None if the table is not a file, or has none beside it.
    """
    if not isinstance(source, str | Path) or "://" in str(source):
        return None
    beside = Path(source).with_suffix(CONTRACT_ENDING)
    is_there = Path(source).is_file() and beside.is_file()
    return beside if is_there else None


def draft_of_table(table: TableOptions, beside: Path | None) -> Draft:
    """Return the contract of a table, or the one beside it, with the stated roles."""
    roles = table.stated()
    contract = roles.pop("contract", beside)
    roles.pop("keep", None)
    return draft_contract(contract, **roles)


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
    """Open a cohort's source, and add to its contract what such a source brings.

    A folder of images brings the group, a neighbourhood its features.
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

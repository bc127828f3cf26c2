"""Complete the contract of a table, from its file, options and the kind of table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from screening.contract.contract import Contract
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


def stated_contract(table: TableOptions, beside: Path | None) -> Contract:
    """Return the contract of a table, or the one beside it, with the stated roles."""
    roles = table.stated()
    contract = roles.pop("contract", beside)
    roles.pop("keep", None)
    return resolve_contract(contract, **roles)


def resolve_contract(
    contract: Contract | str | Path | None,
    neighbourhood: int | None = None,
    drop: str | Sequence[str] | None = None,
    **roles: str | Sequence[str] | None,
) -> Contract:
    """Return a contract, of a file or an empty one, with roles put in its place.

    Columns to drop, which may be one text with commas, are added to the contract's.
    """
    if contract is None:
        contract = Contract()
    elif not isinstance(contract, Contract):
        contract = Contract.load(contract)
    if isinstance(drop, str):
        drop = names_from(drop)
    dropped = [*contract.drop, *drop] if drop else None
    return contract.with_roles(neighbourhood=neighbourhood, drop=dropped, **roles)


def open_source(source: Readable, contract: Contract) -> tuple[Source, Contract]:
    """Open a cohort's source, and add to the contract what such a source brings.

    A folder of images brings the group, a neighbourhood its features.
    """
    opened = source_at(source)
    if not contract.features and not contract.group:
        contract = contract.with_roles(group=opened.group)
    if contract.neighbourhood is None:
        return opened, contract
    with_neighbourhood = optional("neighbourhood").with_neighbourhood
    return with_neighbourhood(opened, contract)

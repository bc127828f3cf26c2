"""A contract to begin with: what `screen init` writes for a person to review."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from screening.cohort.dependence import dependence, proposed
from screening.cohort.inference import inferred
from screening.cohort.reading import contract_of, opened
from screening.cohort.stream import CohortStream
from screening.contract.contract import Contract

if TYPE_CHECKING:
    from screening.cohort.reading import Readable


def starter_contract(
    source: Readable, *, label: str | None = None, positive: str | Sequence[str] | None = None,
    id: str | None = None, group: str | None = None, drop: str | Sequence[str] = (),
) -> tuple[Contract, list[str]]:  # fmt: skip
    """A starter contract for a table, for a person to review, and notes on what was guessed.

    Unlike the inference of `read_cohort` it guesses roles, the patient of several rows among them, lists
    categories and usual ranges (1st to 99th percentile), and declares missing-value codes and censoring it
    meets, so that the table reads with it.
    """
    given = contract_of(None, label=label, positive=positive, id=id, group=group, drop=drop)
    files, given = opened(source, given)
    contract, notes = inferred(files, given, starter=True)
    signs = dependence(files, contract)
    if roles := proposed(signs, contract, given):
        contract, notes = inferred(files, given.with_roles(**roles), starter=True)
    # What cannot be read with it is said now, with place and remedy, and not by the next command.
    CohortStream(files, contract).check()
    return contract, [*files.notes, *notes, *(sign.note for sign in signs)]

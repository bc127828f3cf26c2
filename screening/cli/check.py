"""`screen check`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson, ContractFile, Query, Source, Table, source_of
from screening.errors import CohortError, UsageError


def check(
    cohort: Source,
    table: Table = None,
    query: Query = None,
    contract: ContractFile = None,
    model: Annotated[Path | None, typer.Option(help="Use the contract of this model directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Validate COHORT; list all violations by row, never by value.

    With --model also compare its values with those the model was trained on: other units are a violation,
    other distributions a note.
    """
    from screening.cohort.reading import check_cohort
    from screening.contract.contract import Contract
    from screening.documents.stored import model_in
    from screening.documents.tables import of
    from screening.gates.drift import gates_of
    from screening.storage.sealing import read_document

    gates = None
    if model is not None and contract is None:
        document = read_document(model, "model")
        asked = Contract.from_dict(of(dict, document["contract"]))
        gates = gates_of(model_in(document).training.profile, asked)
    elif contract is not None and model is None:
        asked = Contract.load(contract)
    else:
        raise UsageError("give either --contract FILE or --model DIR")
    violations, notes = check_cohort(
        source_of(cohort, table, query), asked, gates=gates, to_score=model is not None
    )
    attention = gates.attention() if gates and not violations else []
    if as_json:
        reasons = [reason.to_dict() for reason in attention]
        tell({"violations": violations, "notes": notes, "attention": reasons}, as_json)
    elif not violations:
        tell({"violations": [], "notes": [*notes, *(each.words for each in attention)]}, as_json)
    if violations:
        raise CohortError(violations)

"""`screen check`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import CohortError, UsageError
from .console import exits, tell
from .options import AsJson, ContractFile, Source


def check(
    cohort: Source,
    contract: ContractFile = None,
    model: Annotated[Path | None, typer.Option(help="Use the contract of this model directory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Validate COHORT; list all violations by row, never by value."""
    from ..cohort import Contract, check_cohort
    from ..store import read_document

    with exits():
        if model is not None and contract is None:
            asked = Contract.from_dict(read_document(model, "model")["contract"])
        elif contract is not None and model is None:
            asked = Contract.load(contract)
        else:
            raise UsageError("give either --contract FILE or --model DIR")
        violations, notes = check_cohort(cohort, asked)
        if as_json or not violations:
            tell({"violations": violations, "notes": notes}, as_json)
        if violations:
            raise CohortError(violations)

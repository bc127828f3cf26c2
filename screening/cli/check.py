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
        if (contract is None) == (model is None):
            raise UsageError("give either --contract FILE or --model DIR")
        asked = (
            Contract.load(contract)
            if contract
            else Contract.from_dict(read_document(model, "model")["contract"])
        )
        violations, notes = check_cohort(cohort, asked)
        if as_json or not violations:
            tell({"violations": violations, "notes": notes}, as_json)
        if violations:
            raise CohortError(violations)

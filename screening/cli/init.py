"""`screen init`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from screening.cli.console import tell
from screening.cli.options import AsJson, Query, Source, Table, source_of
from screening.errors import UsageError


def init(
    cohort: Source,
    out: Annotated[Path, typer.Option(help="Contract to write (TOML).")],
    table: Table = None,
    query: Query = None,
    as_json: AsJson = False,
) -> None:
    """Infer a starter contract from COHORT, to be read and edited.

    It holds every key, explained, and the role, type, usual range and categories of every column; what was
    guessed is said. The table is read with it before it is written.
    """
    from screening.cohort.starter import starter_contract
    from screening.storage.publishing import write_whole

    if out.exists():
        raise UsageError(f"{out} exists already, and may have been edited; give another --out")
    contract, notes = starter_contract(source_of(cohort, table, query))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, contract.to_toml(notes).encode())
    tell({"contract": str(out), "features": len(contract.features), "notes": notes}, as_json)
